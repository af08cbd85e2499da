#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>

#include "base/bytes.h"
#include "base/result.h"
#include "core/device.h"
#include "core/registry.h"
#include "core/work.h"
#include "os/unique_fd.h"
#include "verbs_driver/arena.h"
#include "verbs_driver/library.h"

namespace weft::verbs_driver {

/// The driver id of these devices (core::engine::kEngineDriver is 1).
inline constexpr std::uint32_t kVerbsDriver = 2;

/// Calls `readable` whenever there is something to read from the descriptor, until what it returned
/// is destroyed.
using WatchDescriptor =
    std::function<std::shared_ptr<void>(int descriptor, std::function<void()> readable)>;

struct VerbsDeviceInit {
  std::string name{};  ///< as libibverbs has it; empty: the first that there is
  unsigned completion_vectors{2};
  /// All memory under one key where the device can do that (implicit on-demand paging); else, or
  /// where this is off ($WEFT_REGISTER_ON_USE puts it off, too), an arena and registrations on use.
  bool on_demand_paging{true};
  /// Fast registration by windows of type 2, where the device has them and pages on demand: of what
  /// lies in one piece (window_operations.cc). $WEFT_FAST_REGISTRATION asks for it, too. With
  /// $WEFT_FORCE_REGISTRATION besides, RDMA contexts go through it as well (`force_mr` of kernels).
  bool fast_registration{};
  /// Though the device pages on demand, memory of the heap is registered when a request uses it
  /// first, for good: an access to a page that may be absent costs a look at each use (in Weft's
  /// library a system call), one to a registered page nothing. For programs whose heap keeps what
  /// is freed mapped (os::keep_freed_memory_mapped). Where it cannot be, all stays under the one
  /// key.
  bool registers_heap{};
  std::size_t arena_bytes{64U << 20};  ///< policy
  /// IBV_EVENT_DEVICE_FATAL unregisters the device, as a kernel does one that is pulled out:
  /// clients are told to leave it. For hosts whose users are clients.
  bool unregisters_when_gone{};
  /// Completion events are taken where this calls back: a program of one loop has them there
  /// without another thread, which would have to wake first. Null: by the thread of events.
  WatchDescriptor watch_completions{};
};

/// The driver that makes a device of core of one of libibverbs. One thread waits for completion and
/// asynchronous events, and tells the core; CQs of PollContext::Direct are only polled. What verbs
/// of programs cannot do, the device's capabilities say: no fast registration by work request but
/// what windows can do, no FMR, no integrity, no XRC, no windows; and no SMI or GSI QP, so that
/// ports have no MADs and no SA. Any thread.
class VerbsDevice final {
 public:
  /// Opens and registers. NotFound: no libraries; NoSuchDevice.
  [[nodiscard]] static Result<std::unique_ptr<VerbsDevice>> open(core::Registry& registry,
                                                                 VerbsDeviceInit init = {});
  /// Unregisters; all of its objects are gone.
  ~VerbsDevice();
  VerbsDevice(const VerbsDevice&) = delete;
  VerbsDevice& operator=(const VerbsDevice&) = delete;

  [[nodiscard]] core::Device& device() const { return *device_; }
  [[nodiscard]] Guid node_guid() const { return node_guid_; }

  /// Memory that every PD's keys reach, local and global ones (`dma_alloc_coherent`); zeroed.
  [[nodiscard]] Result<MutableByteSpan> allocate_memory(std::size_t bytes);
  void free_memory(MutableByteSpan memory);

  // --- for the files of the driver
  [[nodiscard]] const VerbsLibrary& library() const { return *library_; }
  [[nodiscard]] ibv_context& context() const { return *context_; }
  [[nodiscard]] ibv_comp_channel& channel() const { return *channel_; }
  [[nodiscard]] Arena& arena() { return *arena_; }
  [[nodiscard]] bool uses_on_demand_paging() const { return on_demand_paging_; }
  [[nodiscard]] bool registers_by_windows() const { return registers_by_windows_; }
  [[nodiscard]] bool registers_heap() const { return init_.registers_heap && on_demand_paging_; }
  void add_qp(core::Qp& qp);
  void remove_qp(const core::Qp& qp);
  /// Null: not, or no longer, there.
  [[nodiscard]] core::Qp* find_qp(Qpn number) const;

 private:
  VerbsDevice(core::Registry& registry, const VerbsLibrary& library, VerbsDeviceInit init);
  Result<void> open_context();
  Result<void> register_device();
  void serve_events();
  /// False: there is none.
  bool take_completion_event();
  void take_async_event();

  core::Registry& registry_;
  const VerbsLibrary* library_;
  VerbsDeviceInit init_;
  ibv_context* context_{};
  ibv_comp_channel* channel_{};
  Guid node_guid_{};
  std::uint8_t ports_{};
  bool on_demand_paging_{};
  bool registers_by_windows_{};
  std::unique_ptr<Arena> arena_;
  core::Device* device_{};
  bool is_registered_{};
  core::Work unregistration_;  // of a device that is gone
  mutable std::mutex qps_mutex_;
  std::unordered_map<std::uint32_t, core::Qp*> qps_;  // by number
  os::UniqueFd stop_;                                 // readable: the thread ends
  std::thread thread_;
  std::shared_ptr<void> watched_;  // the channel, by who was asked to
};

[[nodiscard]] VerbsDevice& verbs_device_of(const core::Device& device);

/// The operations of every device of this driver.
[[nodiscard]] core::DeviceOperations verbs_operations();

}  // namespace weft::verbs_driver
