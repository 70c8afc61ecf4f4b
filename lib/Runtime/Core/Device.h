//===- Device.h - What a device must do for the runtime -----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// There is one folder beside Core for each kind of device. test/unit/Runtime/Core/DeviceTest.cpp tests what the
// comments here say, with every device of the build.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CORE_DEVICE_H
#define INTARSIA_RUNTIME_CORE_DEVICE_H

#include "intarsia/module_abi.h"
#include "lib/Runtime/Core/Memory.h"
#include "lib/Support/Status.h"

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace intarsia {
struct OperandInfo;
}

namespace intarsia::runtime {

/// Kernels of one artifact that a device has loaded from an object. Launches refer to them by their index in the
/// artifact. It must outlive every launch of its kernels.
class Executable {
public:
  virtual ~Executable() = default;
};

/// The kernels that a device loads. `object` is in the form that the device's target writes (lib/Target/<X>); it may be
/// freed after load() returns.
struct ExecutableSource {
  std::string name; ///< the artifact's, for messages
  const void *object = nullptr;
  uint64_t bytes = 0;
  const std::vector<std::string> *kernels =
      nullptr;                  ///< names of all kernels of the artifact, those of other devices too
  std::vector<uint32_t> wanted; ///< indices of the kernels that the object has
};

/// One kernel launch. Arrays and `shared` are the caller's: a device that starts it later copies the arrays.
struct Launch {
  const itx_kernel_entry *entry = nullptr; ///< the kernel's host code: its launch; on the host's CPU its body too
  const Executable *executable = nullptr;  ///< null for kernels of the host's CPU
  uint32_t kernel = 0;                     ///< index in the artifact
  const char *name = "";                   ///< name and label live as long as the artifact is loaded
  const char *label = "";
  void *const *buffers = nullptr; ///< addresses in the device's memory: inputs, then outputs
  uint32_t bufferCount = 0;
  const int64_t *sizes = nullptr;
  uint32_t sizeCount = 0;
  const std::vector<OperandInfo> *operands = nullptr; ///< one for each buffer; null where the manifest has none
  ScratchBuffer *shared = nullptr;                    ///< of the call; lives until the launch's event has happened
};

/// Where an address of a copy is.
enum class MemoryKind {
  Host,  ///< memory of this process
  Device ///< memory of the device that copies
};

/// An exchange between the devices of a group's ranks. `kind` is one of ITX_COLLECTIVE_*, but not
/// ITX_COLLECTIVE_BROADCAST_RESULT nor one of those in 8 bits.
struct DeviceExchange {
  uint32_t kind = 0;
  itx_dtype element = ITX_U8;
  void *destination = nullptr; ///< as in itx_host_api::collective
  const void *source = nullptr;
  uint64_t elements = 0, rows = 0;
  const char *name = ""; ///< "all-reduce"; lives as long as the artifact is loaded, as the label does
  const char *label = "";
};

/// Ranks whose devices exchange data themselves, by a library of their vendor.
class DeviceGroup {
public:
  /// Frees what the library keeps for the group. No exchange of it is running, unless it was aborted.
  virtual ~DeviceGroup() = default;
  /// Starts this rank's part after the given events. All ranks of the group start the same in the same order.
  virtual Status start(uint32_t queue, const DeviceExchange &exchange, const itx_event *after, uint32_t afterCount,
                       itx_event &event) = 0;
  /// Returns an error if an exchange has failed on its way. From any thread.
  virtual Status check() = 0;
  /// Ends exchanges that wait for ranks which will not come; their events happen, with any data. Nothing can be started
  /// afterwards. May be called from any thread, also while start() runs.
  virtual void abort() = 0;
};

/// How a device exchanges data with devices of other ranks.
struct DeviceLinks {
  std::string library; ///< name and version, which must be the same on all ranks: "NCCL 2.27.3"; empty: see `problem`
  std::string problem; ///< why there is no library
  /// Which of the host's devices it is: two ranks with the same one cannot use the library. Empty: it exchanges
  /// nothing.
  std::string unit;
};

/// Identifies a new group: one of its ranks makes these bytes, and all need them to join.
using DeviceGroupId = std::array<char, 128>;

/// A device. All members may be called from several threads at once.
///
/// Work is put on queues. The work of a queue begins in the order in which it was put there, each piece after the
/// events that it waits for; it may be done later than the call that started it returns. An event is a number that the
/// device gives, less than 2^56; 0 is an event that has happened. Events are only valid for the device that made them,
/// need not be freed, and may be waited for several times.
///
/// Work that fails lets its event happen, with an error: waiting for it returns the error, and so does waiting for work
/// that waits for it, which is not begun. Other work goes on, unless the device is lost (ITX_DEVICE_LOST).
class Device {
public:
  virtual ~Device() = default;

  /// Returns the kind, as `--target` and `rt.device` name it: "cpu".
  virtual const char *kind() const = 0;
  /// Returns a name that no other device of the process has, also among those that are no more: the kind, or the kind
  /// and a number.
  virtual const char *name() const = 0;
  /// Returns the JSON object of itx_device_info.
  virtual std::string info() const = 0;
  /// Returns an error if an environment variable that the device reads has an invalid value.
  virtual Status checkEnvironment() const = 0;

  /// True if kernels read and write memory of this process. Other devices have memory of their own, whose addresses are
  /// meant for them alone: a pointer into it can be computed with, but not followed by the host.
  virtual bool usesHostMemory() const = 0;
  /// Makes memory of at least `bytes`, valid for 0 too, aligned to ITX_BUFFER_ALIGNMENT, with any contents.
  /// ITX_OUT_OF_MEMORY says how much was asked for, and how much the device has.
  virtual Status allocate(uint64_t bytes, void *&address) = 0;
  /// Frees memory of allocate(), on which no work may be running; null is allowed.
  virtual void release(void *address) = 0;

  /// Returns the type of the device's memory as DLPack numbers it (DLDeviceType). Machines number their devices of one
  /// type from 0.
  virtual int32_t dlpackType() const = 0;
  /// Returns true if all the bytes lie in one piece of memory of allocate(). Devices that use memory of the host cannot
  /// tell, and return true.
  virtual bool owns(const void *address, uint64_t bytes) const = 0;

  /// Returns true if an object of this variant, as the manifest describes it, can be loaded.
  virtual bool supports(const std::string &variant) const = 0;
  /// Loads kernels. ITX_CORRUPT names a kernel that the object lacks. Devices that run host code have nothing to load.
  virtual Status load(const ExecutableSource &source, std::unique_ptr<Executable> &executable) = 0;

  /// Number of queues; queue numbers are taken modulo it.
  virtual uint32_t queueCount() const = 0;
  /// Starts a kernel after the given events; `event` receives one that happens when it is done.
  virtual Status dispatch(uint32_t queue, const Launch &launch, const itx_event *after, uint32_t afterCount,
                          itx_event &event) = 0;
  /// Starts a copy after the given events. Memory of the host must stay as it is until the event has happened.
  virtual Status copy(uint32_t queue, void *destination, MemoryKind destinationKind, const void *source,
                      MemoryKind sourceKind, uint64_t bytes, const itx_event *after, uint32_t afterCount,
                      itx_event &event) = 0;
  /// Starts a copy of this device's memory into that of another one, on whose memory no work may be running;
  /// ITX_UNSUPPORTED if the two cannot copy without the host. The event is this device's.
  virtual Status copyTo(Device &other, void *destination, const void *source, uint64_t bytes, itx_event &event) {
    event = 0;
    return error(ITX_UNSUPPORTED, "the device '%s' does not copy to '%s'", name(), other.name());
  }
  /// Starts setting bytes of the device's memory to a value after the given events.
  virtual Status fill(uint32_t queue, void *destination, uint8_t value, uint64_t bytes, const itx_event *after,
                      uint32_t afterCount, itx_event &event) = 0;
  /// Waits until the event has happened; returns at once for 0.
  virtual Status wait(itx_event event) = 0;

  /// Says how it exchanges data with devices of other ranks; without a unit by way of the host's memory alone.
  virtual DeviceLinks links() { return {}; }
  /// Makes the id of a new group.
  virtual Status makeGroupId(DeviceGroupId &id) {
    return error(ITX_UNSUPPORTED, "the device '%s' has no groups", name());
  }
  /// Joins a group as its member `index` of `size`; waits until all others join.
  virtual Status joinGroup(const DeviceGroupId &id, size_t index, size_t size, std::unique_ptr<DeviceGroup> &group) {
    return error(ITX_UNSUPPORTED, "the device '%s' has no groups", name());
  }

  /// Sets how many threads of the host compute a launch, the caller among them; 0: as many as the device chooses.
  /// Devices that compute elsewhere take any number and ignore it.
  virtual Status setThreads(int32_t threads) = 0;
  virtual int32_t threads() const = 0;
};

/// Memory of a device that belongs to its holder.
class Buffer {
public:
  Buffer() = default;
  ~Buffer() { reset(); }
  Buffer(Buffer &&other) noexcept { swap(other); }
  Buffer &operator=(Buffer &&other) noexcept {
    swap(other);
    return *this;
  }

  static Status make(Device &device, uint64_t bytes, Buffer &buffer) {
    Buffer made;
    ITX_RETURN_IF_ERROR(device.allocate(bytes, made.address_));
    made.device_ = &device;
    made.bytes_ = bytes;
    buffer.swap(made);
    return Status::success();
  }

  /// Makes the buffer at least `bytes` large; contents are lost if it was smaller. No work may be running on it.
  Status reserve(Device &device, uint64_t bytes) {
    if (device_ == &device && address_ && bytes <= bytes_)
      return Status::success();
    reset();
    return make(device, bytes, *this);
  }

  void reset() {
    if (device_)
      device_->release(address_);
    device_ = nullptr;
    address_ = nullptr;
    bytes_ = 0;
  }

  Device *device() const { return device_; }
  void *address() const { return address_; }
  uint64_t bytes() const { return bytes_; }

private:
  void swap(Buffer &other) {
    std::swap(device_, other.device_);
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
  }

  Device *device_ = nullptr;
  void *address_ = nullptr;
  uint64_t bytes_ = 0;
};

/// The settings of a device that a program makes for itself.
struct DeviceSettings {
  int32_t threads = 0;         ///< of a launch, its caller included; 0: as many as the device chooses
  std::vector<int> processors; ///< numbers, as the system counts them, of those that its threads run on; empty: all
};

/// Makes another device of a kind. The runtime's objects that use it keep it. ITX_UNSUPPORTED if a kind has no more
/// devices than the machine's.
Status makeDevice(const std::string &kind, const DeviceSettings &settings, std::shared_ptr<Device> &device);

/// The devices that every machine has, the host's CPU first.
const std::vector<Device *> &hostedDevices();
/// The devices of this machine, first those that every machine has. The list never changes; devices that are made are
/// not in it. The first call looks for drivers, and starts those that there are.
const std::vector<Device *> &devices();
/// Returns why this machine has no device of a name or kind, such as a driver that is missing, after "; "; an empty
/// text if there is nothing to say.
std::string whyMissing(const std::string &device);
/// Returns the host's CPU, which runs the code that artifacts hold for the host.
inline Device &hostDevice() { return *hostedDevices().front(); }

} // namespace intarsia::runtime

#endif
