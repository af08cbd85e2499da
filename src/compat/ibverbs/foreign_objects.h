#pragma once

// Devices, PDs and regions that another process has opened or made, as this program has imported
// them (ibv_import_device(3)). Each is there once, however many names it has, and goes with the
// last. Any thread.
//
// A foreign PD is a PD of this process's engine, in which the program makes QPs and regions as in
// any other; while it has some there, its owner may not deallocate it. A foreign region is in it
// under its own keys, over its memory if this process has that mapped, too: a region of private
// memory can be named to peers of its owner's QPs, but no QP of this process reaches it.

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

class PeerDevice : public std::enable_shared_from_this<PeerDevice> {
 public:
  PeerDevice(host::Process& process, const host::ImportedDevice& device);
  ~PeerDevice();
  PeerDevice(const PeerDevice&) = delete;
  PeerDevice& operator=(const PeerDevice&) = delete;

  [[nodiscard]] std::uint32_t hca() const { return device_.hca; }
  [[nodiscard]] hca::Hca& engine() const;
  /// NotFound: its owner has no PD with that handle.
  [[nodiscard]] Result<std::shared_ptr<PeerPd>> import_domain(std::uint32_t handle);

  [[nodiscard]] Result<uabi::ObjectAnswer> ask(uabi::ImportVerb verb, std::uint32_t handle) const {
    return process_.ask_for_object(device_, verb, handle);
  }
  /// So that its owner knows before this returns, if it is there.
  void tell(uabi::ImportVerb verb, std::uint32_t handle) const;

 private:
  host::Process& process_;
  const host::ImportedDevice device_;
  std::mutex lock_;
  std::map<std::uint32_t, std::weak_ptr<PeerPd>> domains_;
};

class PeerPd : public std::enable_shared_from_this<PeerPd> {
 public:
  PeerPd(std::shared_ptr<PeerDevice> device, std::uint32_t handle, hca::ProtectionDomain& engine)
      : device_(std::move(device)), handle_(handle), engine_(engine) {}
  ~PeerPd();
  PeerPd(const PeerPd&) = delete;
  PeerPd& operator=(const PeerPd&) = delete;

  [[nodiscard]] hca::ProtectionDomain& engine() const { return engine_; }
  [[nodiscard]] PeerDevice& device() const { return *device_; }
  [[nodiscard]] Result<std::shared_ptr<PeerMr>> import_region(std::uint32_t handle);

  /// There are objects of this process in it: the first and the last are told to its owner.
  void hold();
  void release_hold();
  /// For good. Busy: somebody has objects in it.
  [[nodiscard]] Result<void> deallocate() const;

 private:
  const std::shared_ptr<PeerDevice> device_;
  const std::uint32_t handle_;
  hca::ProtectionDomain& engine_;
  std::mutex lock_;
  std::uint32_t holds_{};
  std::map<std::uint32_t, std::weak_ptr<PeerMr>> regions_;
};

class PeerMr {
 public:
  PeerMr(std::shared_ptr<PeerPd> domain, std::uint32_t handle, hca::MemoryRegion& engine)
      : domain_(std::move(domain)), handle_(handle), engine_(engine) {}
  ~PeerMr();
  PeerMr(const PeerMr&) = delete;
  PeerMr& operator=(const PeerMr&) = delete;

  [[nodiscard]] hca::MemoryRegion& engine() const { return engine_; }
  /// For good.
  [[nodiscard]] Result<void> deregister() const;

 private:
  const std::shared_ptr<PeerPd> domain_;
  const std::uint32_t handle_;
  hca::MemoryRegion& engine_;
};

/// The device behind a command descriptor of another process.
[[nodiscard]] Result<std::shared_ptr<PeerDevice>> import_peer_device(host::Process& process,
                                                                     int command);

/// As the owner: what another process asks for, and that it is gone (host::ProcessEvents).
[[nodiscard]] uabi::ObjectAnswer answer_importer(const uabi::ObjectRequest& question);
void remove_importer(std::uint32_t device, uabi::ProcessAddress importer);

}  // namespace weft::compat
