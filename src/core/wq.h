#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "core/cq.h"
#include "core/pd.h"
#include "core/resource.h"

namespace weft::core {

enum class WqType : std::uint8_t { Rq };
enum class WqState : std::uint8_t { Reset, Ready, Error };

struct WqInit {
  WqType type{WqType::Rq};
  std::uint32_t max_wr{};
  std::uint32_t max_sge{};
  Cq* cq{};
  ObjectEventHandler event_handler{};
  void* context{};
  UserData* user_data{};
};

/// What to change; afterwards it says how the queue is.
struct WqModify {
  std::optional<WqState> current_state{};
  std::optional<WqState> state{};
  UserData* user_data{};
};

/// Work queue: a receive queue of no QP (§11). Its user serialises modify.
class Wq final : public Resource {
 public:
  Wq(Pd& pd, const WqInit& init)
      : Resource(pd.device(), ResourceKind::Wq, "core"), pd_(pd), init_(init) {}

  [[nodiscard]] Pd& pd() const { return pd_; }
  [[nodiscard]] Cq& cq() const { return *init_.cq; }
  [[nodiscard]] WqState state() const { return state_; }
  [[nodiscard]] std::uint32_t uses() const { return uses_.load(std::memory_order_acquire); }
  Qpn number{};  ///< set by the driver

  void hold() { uses_.fetch_add(1, std::memory_order_relaxed); }
  void put() { uses_.fetch_sub(1, std::memory_order_acq_rel); }
  void dispatch(const Event& event) const;

 private:
  friend Result<void> modify_wq(Wq& wq, WqModify& modify);
  Pd& pd_;
  const WqInit init_;
  WqState state_{WqState::Reset};
  std::atomic<std::uint32_t> uses_{};
};

/// `init` says the actual sizes afterwards, at least those asked for (R-WQ-1).
Result<Wq*> create_wq(Pd& pd, WqInit& init);
/// Busy while an indirection table has it.
Result<void> destroy_wq(Wq& wq);

/// Reset to Ready to Error, both back to Reset; no other way (R-WQ-3).
Result<void> modify_wq(Wq& wq, WqModify& modify);

Result<void> post_wq_recv(Wq& wq, const RecvWr& first, const RecvWr** bad = nullptr);

/// Table of work queues over which a QP spreads what it receives; a power of two of them.
class IndirectionTable final : public Resource {
 public:
  IndirectionTable(Device& device, std::vector<Wq*> queues)
      : Resource(device, ResourceKind::IndirectionTable, "core"), queues_(std::move(queues)) {}

  [[nodiscard]] const std::vector<Wq*>& queues() const { return queues_; }
  [[nodiscard]] std::uint32_t uses() const { return uses_.load(std::memory_order_acquire); }
  void hold() { uses_.fetch_add(1, std::memory_order_relaxed); }
  void put() { uses_.fetch_sub(1, std::memory_order_acq_rel); }

 private:
  const std::vector<Wq*> queues_;
  std::atomic<std::uint32_t> uses_{};
};
Result<IndirectionTable*> create_indirection_table(Device& device, std::span<Wq* const> queues);
Result<void> destroy_indirection_table(IndirectionTable& table);

}  // namespace weft::core
