#pragma once

// Devices, PDs and regions of other processes, as this program has imported them
// (ibv_import_device(3)). Each exists once, however many handles it has, and is released with the
// last. Any thread; each object has its own lock.
//
// A foreign PD is represented by a PD of this process's engine, in which the program creates QPs
// and regions as usual; while it has any, the owner cannot deallocate its PD. A foreign region is
// in that PD under its original keys, backed by its memory if that is mapped in this process, too.
// A region of private memory can be named to peers of the owner's QPs, but no QP of this process
// can access it.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "base/result.h"
#include "hca/hca.h"
#include "host/process.h"

namespace weft::compat {

class PeerPd;
class PeerMr;

/// A device that another process has opened.
class PeerDevice : public std::enable_shared_from_this<PeerDevice> {
 public:
  PeerDevice(host::Process& process, const host::ImportedDevice& device);
  ~PeerDevice();
  PeerDevice(const PeerDevice&) = delete;
  PeerDevice& operator=(const PeerDevice&) = delete;

  [[nodiscard]] std::uint32_t hca() const { return device_.hca; }
  [[nodiscard]] hca::Hca& engine() const;
  /// Imports a PD. NotFound if the owner has no PD with that handle.
  [[nodiscard]] Result<std::shared_ptr<PeerPd>> import_domain(std::uint32_t handle);

  /// Sends a request to the owner and waits for the response.
  [[nodiscard]] Result<uabi::ObjectAnswer> ask(uabi::ImportVerb verb, std::uint32_t handle) const {
    return process_.ask_for_object(device_, verb, handle);
  }
  /// Notifies the owner, and returns when it has been notified, if it is still there.
  void tell(uabi::ImportVerb verb, std::uint32_t handle) const;

 private:
  host::Process& process_;
  const host::ImportedDevice device_;
  std::mutex lock_;
  std::map<std::uint32_t, std::weak_ptr<PeerPd>> domains_;
};

/// A PD that another process has allocated.
class PeerPd : public std::enable_shared_from_this<PeerPd> {
 public:
  PeerPd(std::shared_ptr<PeerDevice> device, std::uint32_t handle, hca::ProtectionDomain& engine)
      : device_(std::move(device)), handle_(handle), engine_(engine) {}
  ~PeerPd();
  PeerPd(const PeerPd&) = delete;
  PeerPd& operator=(const PeerPd&) = delete;

  [[nodiscard]] hca::ProtectionDomain& engine() const { return engine_; }
  [[nodiscard]] PeerDevice& device() const { return *device_; }
  /// Imports a region of this PD. NotFound if the owner has no region with that handle.
  [[nodiscard]] Result<std::shared_ptr<PeerMr>> import_region(std::uint32_t handle);

  /// Counts objects of this process in the PD. The owner is notified of the first and the last.
  void hold();
  void release_hold();
  /// Deallocates the PD at its owner. Busy if it is in use.
  [[nodiscard]] Result<void> deallocate() const;

 private:
  const std::shared_ptr<PeerDevice> device_;
  const std::uint32_t handle_;
  hca::ProtectionDomain& engine_;
  std::mutex lock_;
  std::uint32_t holds_{};
  std::map<std::uint32_t, std::weak_ptr<PeerMr>> regions_;
};

/// A memory region that another process has registered.
class PeerMr {
 public:
  PeerMr(std::shared_ptr<PeerPd> domain, std::uint32_t handle, hca::MemoryRegion& engine)
      : domain_(std::move(domain)), handle_(handle), engine_(engine) {}
  ~PeerMr();
  PeerMr(const PeerMr&) = delete;
  PeerMr& operator=(const PeerMr&) = delete;

  [[nodiscard]] hca::MemoryRegion& engine() const { return engine_; }
  /// Deregisters the region at its owner.
  [[nodiscard]] Result<void> deregister() const;

 private:
  const std::shared_ptr<PeerPd> domain_;
  const std::uint32_t handle_;
  hca::MemoryRegion& engine_;
};

/// Imports the device of a command descriptor of another process.
[[nodiscard]] Result<std::shared_ptr<PeerDevice>> import_peer_device(host::Process& process,
                                                                     int command);

/// For the owner: answers a request of an importer, and handles its end (host::ProcessEvents).
[[nodiscard]] uabi::ObjectAnswer answer_importer(const uabi::ObjectRequest& question);
void remove_importer(std::uint32_t device, uabi::ProcessAddress importer);

}  // namespace weft::compat
