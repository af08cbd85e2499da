#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_set>
#include <vector>

#include "core/cq.h"
#include "core/operations.h"
#include "core/pd.h"
#include "core/qp.h"
#include "core/srq.h"
#include "verbs_driver/library.h"
#include "verbs_driver/registrations.h"
#include "verbs_driver/verbs_qp.h"

namespace weft::verbs_driver {

/// What stands behind a PD of the core.
struct VerbsPd {
  ibv_pd* pd{};
  /// Under this key requests name any local memory; they are posted with the key that the device
  /// has for it, if it is not in `region`.
  LKey local_key{};
  ibv_mr* region{};  ///< of all memory, or of the arena; null: there is none yet
  bool reaches_all{};
  /// Of what `region` reaches, the heap is registered beside it; ends with the first refusal.
  std::atomic<bool> registers_heap{};
  std::unique_ptr<Registrations> registrations;

  /// The device's key for local memory, which may be registered now.
  [[nodiscard]] Result<LKey> key_of(std::uint64_t address, std::uint32_t length);

  /// Whether a key is that of a region that windows stand for, which have none for local memory.
  [[nodiscard]] bool is_of_window(LKey key);
  std::atomic<unsigned> window_count{};
  std::mutex windows_mutex{};                       // of what follows
  ibv_mr* windowed{};                               ///< all memory, with the right to bind windows
  std::unordered_set<std::uint32_t> window_keys{};  // without the low byte, which is the user's
};

/// A CQ, with completions that were found while it was armed.
struct VerbsCq {
  ibv_cq* cq{};
  std::mutex mutex{};  // of polling
  std::vector<core::Wc> found{};
};

[[nodiscard]] inline VerbsPd& verbs_pd(const core::Pd& pd) {
  return *static_cast<VerbsPd*>(pd.driver_data);
}
[[nodiscard]] inline VerbsCq& verbs_cq(const core::Cq& cq) {
  return *static_cast<VerbsCq*>(cq.driver_data);
}
[[nodiscard]] inline ibv_srq* verbs_srq(const core::Srq& srq) {
  return static_cast<ibv_srq*>(srq.driver_data);
}
[[nodiscard]] inline VerbsQp& verbs_qp(const core::Qp& qp) {
  return *static_cast<VerbsQp*>(qp.driver_data);
}

/// The operations by what they are about; verbs_operations() puts them together.
void add_device_operations(core::DeviceOperations& operations);
void add_object_operations(core::DeviceOperations& operations);
void add_memory_operations(core::DeviceOperations& operations);
void add_qp_operations(core::DeviceOperations& operations);
void add_window_operations(core::DeviceOperations& operations);

/// Ends a region of add_window_operations().
Result<void> deallocate_window(core::Mr& mr);
/// Makes the request that registers the memory that such a region shows now.
Result<void> bind_window(const core::SendWr& wr, ibv_send_wr& to);

/// The elements of requests as libibverbs takes them, each under a key that the device has.
struct DeviceSges {
  static constexpr std::size_t kMost = 64;  // policy; devices have fewer
  std::array<ibv_sge, kMost> list;          // of which `count` are set
  std::size_t count{};

  [[nodiscard]] bool has_room_for(std::span<const verbs::Sge> sges) const {
    return sges.size() <= kMost - count;
  }
  /// Those of one request, behind those that are there. InvalidArgument: too many; else why memory
  /// cannot be registered. `pd` null: keys stay.
  [[nodiscard]] Result<std::span<ibv_sge>> add(VerbsPd* pd, std::span<const verbs::Sge> sges);
};

/// Posts each receive of a chain by `post(wr, &bad)`; `*bad` is the first that was refused.
template <class Post>
Result<void> post_receives(VerbsPd* pd, const core::RecvWr& first, const core::RecvWr** bad,
                           Post post) {
  for (const core::RecvWr* wr = &first; wr != nullptr; wr = wr->next) {
    DeviceSges sges;
    const auto added = sges.add(pd, wr->sges);
    Result<void> posted = added ? Result<void>{} : std::unexpected(added.error());
    if (posted) {
      ibv_recv_wr to{.wr_id = wr->wr_id,
                     .next = nullptr,
                     .sg_list = added->data(),
                     .num_sge = static_cast<int>(added->size())};
      ibv_recv_wr* refused = nullptr;
      posted = post(to, &refused);
    }
    if (!posted) {
      *bad = wr;
      return posted;
    }
  }
  return {};
}

}  // namespace weft::verbs_driver
