//===- LaunchTest.cpp - A module of two ranks, and how intarsia-run starts them ----------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Collectives/Launch.h"

#include "test/unit/Runtime/Collectives/Ranks.h"
#include "test/unit/Runtime/Modules.h"

#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <thread>

using namespace intarsia;
using namespace intarsia::testing;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

namespace {

const char ranksManifest[] = R"({"format":1,"producer":"test 1.0","flags":[],
 "target":{"triple":"test","variants":[{"name":"plain","cpu":"x","features":[]}]},
 "kernels":[],"labels":["layer.down","layer.pass"],"world":{"size":2,"groups":[[0,1]]},
 "functions":[
  {"name":"main","rank":0,"sizes":[{"name":"n"}],"inputs":[{"name":"x","dtype":"f32","shape":["n"]}],
   "outputs":[{"name":"y","dtype":"f32","shape":["n"]}]},
  {"name":"main","rank":1,"sizes":[{"name":"n"}],"inputs":[{"name":"x","dtype":"f32","shape":["n"]}],
   "outputs":[{"name":"y","dtype":"f32","shape":["n"]}]},
  {"name":"pass","rank":0,"sizes":[{"name":"n"}],"inputs":[{"name":"x","dtype":"f32","shape":["n"]}],
   "outputs":[{"name":"y","dtype":"f32","shape":["n + n"]}]},
  {"name":"pass","rank":1,"sizes":[{"name":"n"}],"inputs":[{"name":"x","dtype":"f32","shape":["n"]}],
   "outputs":[{"name":"y","dtype":"f32","shape":["n + n"]}]}]})";

/// How a program ended: what it wrote, and after which time.
struct Outcome {
  std::string text;
  int status = 0;
  double seconds = 0;
};

class Launch : public ModuleTest {
protected:
  std::string write(const std::string &manifest = ranksManifest, const std::string &name = "ranks.itx") {
    std::string elf = sampleElf(manifest, ITX_TEST_RANKS), path = folder / name;
    Status status = writeArtifact(path, elf.data(), elf.size());
    EXPECT_TRUE(status.ok()) << status.message();
    return path;
  }

  std::string input(std::vector<float> values) {
    TensorPointer tensor = tensorOf(ITX_F32, {int64_t(values.size())}, values);
    EXPECT_EQ(itx_tensor_save_npy(tensor.get(), (folder / "x.npy").c_str()), ITX_OK);
    return "--input=x=@" + (folder / "x.npy");
  }

  std::vector<float> result() {
    itx_tensor *tensor = nullptr;
    EXPECT_EQ(itx_tensor_load_npy((folder / "y.npy").c_str(), &tensor), ITX_OK) << itx_last_error();
    TensorPointer owner(tensor);
    auto *data = static_cast<const float *>(itx_tensor_data(tensor));
    return tensor ? std::vector<float>(data, data + itx_tensor_elements(tensor)) : std::vector<float>();
  }

  /// Runs intarsia-run; `meanwhile` is called with its process. Waits until nobody can write to its output any more,
  /// which is when all its ranks have ended.
  Outcome run(std::vector<std::string> arguments, const std::function<void(pid_t)> &meanwhile = nullptr) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    auto begin = std::chrono::steady_clock::now();
    arguments.insert(arguments.begin(), ITX_TEST_RUNNER);
    std::vector<char *> pointers;
    for (std::string &argument : arguments)
      pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    pid_t process = fork();
    if (process == 0) {
      dup2(ends[1], STDOUT_FILENO);
      dup2(ends[1], STDERR_FILENO);
      execv(pointers[0], pointers.data());
      _exit(127);
    }
    close(ends[1]);
    if (meanwhile)
      meanwhile(process);
    auto asked = std::chrono::steady_clock::now();
    Outcome outcome;
    char bytes[4096];
    for (ssize_t count; (count = read(ends[0], bytes, sizeof(bytes))) > 0;)
      outcome.text.append(bytes, size_t(count));
    close(ends[0]);
    waitpid(process, &outcome.status, 0);
    outcome.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - (meanwhile ? asked : begin)).count();
    return outcome;
  }

  static int exitOf(const Outcome &outcome) { return WIFEXITED(outcome.status) ? WEXITSTATUS(outcome.status) : -1; }
};

TEST_F(Launch, TwoRanks) {
  std::string path = write();
  Outcome outcome = run({path, "--world=2", input({1, 2, 3.5}), "--output=@" + (folder / "y.npy")});
  EXPECT_EQ(exitOf(outcome), 0) << outcome.text;
  EXPECT_EQ(outcome.text, "");
  EXPECT_EQ(result(), (std::vector<float>{11, 22, 38.5}));
  outcome = run({path, "--world=2", "--function=pass", input({4, 5}), "--output=@" + (folder / "y.npy"),
                 "--profile=" + (folder / "t.json")});
  EXPECT_EQ(exitOf(outcome), 0) << outcome.text;
  EXPECT_EQ(result(), (std::vector<float>{4, 5, 4, 5}));
  EXPECT_THAT(readFile(folder / "t.json"), HasSubstr("layer.pass"));
  outcome = run({path, "--world=2", input({1, 2, 3.5})}); // printed once
  EXPECT_EQ(outcome.text.find("y"), outcome.text.rfind("y")) << outcome.text;
}

TEST_F(Launch, RankThatIsKilled) {
  Outcome outcome = run({write(), "--world=2", input({-1, 2})});
  EXPECT_EQ(exitOf(outcome), 128 + SIGKILL);
  EXPECT_THAT(outcome.text, MatchesRegex("error: rank 1 \\(process [0-9]+\\) was ended by signal 9 \\(Killed\\): all "
                                         "other ranks of the world of 2 were ended too\n"));
  EXPECT_LT(outcome.seconds, 2);
}

TEST_F(Launch, RankThatHangs) {
  ScopedVariable deadline("ITX_WORLD_DEADLINE_S", "0.3");
  Outcome outcome = run({write(), "--world=2", input({-2, 2})});
  EXPECT_EQ(exitOf(outcome), runtime::rankLostExit);
  EXPECT_THAT(outcome.text,
              MatchesRegex("error: rank 0: function 'main': all-reduce of 'layer.down': rank 1 \\(process "
                           "[0-9]+\\) of the world of 2 has not come to the next exchange within 0.3 s: "
                           ".*\n"));
  EXPECT_LT(outcome.seconds, 2);
}

TEST_F(Launch, RankThatGivesUp) {
  Outcome outcome = run({write(), "--world=2", input({-3, 2})});
  EXPECT_EQ(exitOf(outcome), 1);
  EXPECT_THAT(outcome.text, MatchesRegex("error: rank 1: function 'main': a size of 'layer.down' is negative \\(-7\\): "
                                         "n is 2\n"));
  EXPECT_LT(outcome.seconds, 2);
}

TEST_F(Launch, RankThatDoesSomethingElse) {
  Outcome outcome = run({write(), "--world=2", input({-4, 2})});
  EXPECT_EQ(exitOf(outcome), 1);
  EXPECT_THAT(outcome.text, HasSubstr("the ranks of the world do different things: rank"));
  EXPECT_THAT(outcome.text, HasSubstr("an all-reduce by maximum of 2 f32"));
}

/// Ends the launcher while rank 1 hangs, and rank 0 waits for it.
TEST_F(Launch, Signals) {
  for (int signal : {SIGINT, SIGTERM, SIGKILL}) {
    Outcome outcome = run({write(), "--world=2", input({-2, 2})}, [&](pid_t process) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      kill(process, signal);
    });
    EXPECT_LT(outcome.seconds, 2);
    if (signal == SIGKILL) // the system ends the ranks
      continue;
    EXPECT_EQ(exitOf(outcome), 128 + signal);
    EXPECT_THAT(outcome.text, HasSubstr("and all 2 ranks with it\n"));
  }
}

TEST_F(Launch, WorldsThatDoNotFit) {
  std::string path = write();
  EXPECT_THAT(loadFailure(path, ITX_INVALID_ARGUMENT),
              HasSubstr("ranks.itx: is compiled for a world of 2 ranks, this process is in no world: start it with "
                        "intarsia-run --world=2, or with mpirun -n 2"));
  Outcome outcome = run({path, "--world=3", input({1})});
  EXPECT_EQ(exitOf(outcome), 1);
  EXPECT_THAT(outcome.text, HasSubstr("is compiled for a world of 2 ranks, this process is in one of 3"));
  outcome = run({writeSample(folder), "--world=2", "--list"});
  EXPECT_EQ(exitOf(outcome), 1);
  EXPECT_THAT(outcome.text, HasSubstr("the model is compiled for one process: compile it with --world=2"));
  ScopedVariable size("ITX_WORLD_SIZE", "4"), rank("ITX_WORLD_RANK", "1"), address("ITX_WORLD_ADDRESS", "local:none");
  outcome = run({path, "--world=2", input({1})});
  EXPECT_EQ(exitOf(outcome), 2);
  EXPECT_THAT(outcome.text, HasSubstr("--world=2, but this process was started as rank 1 of a world of 4"));
}

/// Ranks that load different artifacts.
TEST_F(Launch, OtherArtifacts) {
  std::string same = write(), other = write(replaced(ranksManifest, "test 1.0", "test 1.1"), "other.itx");
  for (bool isSame : {true, false}) {
    Ranks ranks(2);
    std::vector<RankResult> results = ranks.run([&](runtime::World &world) -> std::string {
      itx_module *module = nullptr;
      std::string message;
      if (itx_module_load((world.rank() == 0 || isSame ? same : other).c_str(), nullptr, &module) != ITX_OK)
        message = itx_last_error();
      itx_module_free(module);
      return message;
    });
    for (const RankResult &result : results)
      EXPECT_THAT(result.message, HasSubstr(isSame ? "" : "rank 1 has another artifact (")) << isSame;
    EXPECT_EQ(results[0].message.empty(), isSame);
  }
}

TEST_F(Launch, Manifests) {
  auto fails = [&](const char *from, const char *to, const char *why) {
    EXPECT_THAT(loadFailure(write(replaced(ranksManifest, from, to)), ITX_CORRUPT), HasSubstr(why)) << to;
  };
  fails("[[0,1]]", "[[0,2]]", "has the rank 2, which does not exist");
  fails("[[0,1]]", "[[1,1]]", "is in it twice");
  fails("[[0,1]]", "[[]]", "no list of ranks");
  fails("\"size\":2", "\"size\":0", "the world has 0 ranks");
  fails("\"rank\":1", "\"rank\":2", "function 'main' is of rank 2, the world has 2 ranks");
  fails("\"rank\":1", "\"rank\":0", "there are two functions named 'main'");
  fails("\"rank\":1,", "", "there are two functions named 'main'");
}

} // namespace
