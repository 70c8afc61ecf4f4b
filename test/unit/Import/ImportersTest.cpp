//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The table of kinds of models: which one a path is, and what is said of a path that is none or several.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Import/Import.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "gmock/gmock.h"
#include <filesystem>
#include <fstream>

using namespace intarsia;
using namespace intarsia::importer;
using ::testing::HasSubstr;

namespace {

class Importers : public ::testing::Test {
protected:
  Importers() {
    llvm::SmallString<64> made;
    EXPECT_FALSE(llvm::sys::fs::createUniqueDirectory("importers", made));
    folder = made.str().str();
  }
  ~Importers() override { std::filesystem::remove_all(folder); }
  std::string file(const std::string &name) {
    std::filesystem::path path = folder / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << "x";
    return path;
  }
  /// Returns the name of the importer that is found, or the error.
  std::string find(const std::string &path, llvm::ArrayRef<Importer> among = importers()) {
    llvm::Expected<const Importer *> found = findImporter(path, among);
    return found ? (*found)->title() : llvm::toString(found.takeError());
  }
  std::filesystem::path folder;
};

TEST_F(Importers, AreFoundByExtensionsAndMarks) {
  EXPECT_EQ(find(file("m.gguf")), "GGUF file");
  EXPECT_EQ(find(file("m.onnx")), "ONNX file");
  EXPECT_EQ(find(file("m.mlir")), "IR");
  EXPECT_EQ(find(file("m.mlirbc")), "IR");
  file("model/config.json");
  EXPECT_EQ(find(folder / "model"), "Hugging Face model directory");
  file("sentences/modules.json");
  EXPECT_EQ(find(folder / "sentences"), "Hugging Face model directory");
}

TEST_F(Importers, AreNotFoundByTheNameOfADirectory) {
  file("model.gguf/config.json");
  EXPECT_EQ(find((folder / "model.gguf").string()), "Hugging Face model directory");
}

TEST_F(Importers, OfUnknownFilesAreListed) {
  EXPECT_EQ(find(file("m.pb")), (folder / "m.pb").string() +
                                    ": a model is a Hugging Face directory (config.json and "
                                    "*.safetensors), a file named .gguf, a file named .onnx or IR in a "
                                    "file named .mlir or .mlirbc");
  EXPECT_THAT(find(file("gguf")), HasSubstr("a model is a Hugging Face directory"));
  EXPECT_THAT(find(file("m.GGUF")), HasSubstr("a model is a Hugging Face directory"));
  EXPECT_THAT(find(file("m.safetensors")), HasSubstr("; give the directory that this archive is in"));
}

TEST_F(Importers, OfUnknownDirectoriesSayWhatIsMissing) {
  file("model/model.gguf");
  EXPECT_EQ(find(folder / "model"), (folder / "model").string() +
                                        ": has no config.json: not a Hugging Face model directory; is the model " +
                                        (folder / "model/model.gguf").string() + "? Give that file then");
}

TEST_F(Importers, LeaveWhatCannotBeReadToTheirMessages) {
  std::filesystem::create_directory(folder / "model");
  std::filesystem::create_symlink("nowhere", folder / "model/config.json");
  EXPECT_EQ(find(folder / "model"), "Hugging Face model directory");
}

TEST_F(Importers, OfADirectoryOfTwoKindsAreBothNamed) {
  std::vector<Importer> table(importers().begin(), importers().end());
  table.push_back({"transformers export", "a directory of transformers' exporter (export.json)", {}, {"export.json"}});
  file("model/config.json");
  EXPECT_EQ(find(folder / "model", table), "Hugging Face model directory");
  file("model/export.json");
  EXPECT_EQ(find(folder / "model", table),
            (folder / "model").string() +
                ": is a Hugging Face model directory and a transformers export model directory: move "
                "the files of each kind to a directory of its own");
  std::filesystem::create_directory(folder / "empty");
  EXPECT_THAT(find(folder / "empty", table), HasSubstr("has no config.json: not a Hugging Face model directory; has no "
                                                       "export.json: not a transformers export model directory"));
}

TEST_F(Importers, AreListedInHelp) {
  EXPECT_EQ(listKindsBriefly(), "a Hugging Face directory, a .gguf, .onnx, .mlir or .mlirbc file");
  EXPECT_EQ(listImported(), "a model directory, a GGUF file or an ONNX file");
  EXPECT_THAT(listKinds(), HasSubstr("a file named .gguf, a file named .onnx or IR in a file"));
}

TEST_F(Importers, HaveExtensionsOfTheirOwn) {
  llvm::StringSet<> taken;
  for (const Importer &importer : importers()) {
    EXPECT_NE(importer.extensions.empty(), importer.marks.empty()) << importer.name.str();
    EXPECT_TRUE(importer.import) << importer.name.str();
    for (llvm::StringRef key : importer.isDirectory() ? importer.marks : importer.extensions)
      EXPECT_TRUE(taken.insert(key).second) << key.str();
  }
}

} // namespace
