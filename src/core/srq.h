#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/result.h"
#include "core/cq.h"
#include "core/events.h"
#include "core/pd.h"
#include "core/resource.h"

namespace weft::core {

class Qp;
class Xrcd;

enum class SrqType : std::uint8_t { Basic, Xrc };

struct SrqAttributes {
  std::uint32_t max_wr{};
  std::uint32_t max_sge{};
  std::uint32_t limit{};  ///< below it SrqLimitReached comes once; 0: never
};

struct SrqInit {
  SrqType type{SrqType::Basic};
  SrqAttributes attributes{};
  Xrcd* xrcd{};  ///< Xrc
  Cq* cq{};      ///< Xrc: where its receives complete
  ObjectEventHandler event_handler{};
  void* context{};
  const char* caller{"core"};
  UserData* user_data{};
};

/// Shared receive queue (IBTA vol 1 §10.2.9). Any thread.
class Srq final : public Resource {
 public:
  Srq(Pd& pd, const SrqInit& init)
      : Resource(pd.device(), ResourceKind::Srq, init.caller), pd_(pd), init_(init) {}

  [[nodiscard]] Pd& pd() const { return pd_; }
  [[nodiscard]] SrqType type() const { return init_.type; }
  [[nodiscard]] Cq* cq() const { return init_.cq; }
  [[nodiscard]] Xrcd* xrcd() const { return init_.xrcd; }
  [[nodiscard]] std::uint32_t uses() const { return uses_.load(std::memory_order_acquire); }
  [[nodiscard]] void* context() const { return init_.context; }

  std::uint32_t xrc_number{};  ///< Xrc; set by the driver

  void hold() { uses_.fetch_add(1, std::memory_order_relaxed); }
  void put() { uses_.fetch_sub(1, std::memory_order_acq_rel); }
  /// For drivers.
  void dispatch(const Event& event) const;

 private:
  Pd& pd_;
  const SrqInit init_;
  std::atomic<std::uint32_t> uses_{};
};

/// `init.attributes` become the actual ones, at least as large.
Result<Srq*> create_srq(Pd& pd, SrqInit& init);
Result<void> modify_srq(Srq& srq, std::optional<std::uint32_t> max_wr,
                        std::optional<std::uint32_t> limit);
Result<SrqAttributes> query_srq(Srq& srq);
/// Busy while QPs use it.
Result<void> destroy_srq(Srq& srq);
/// All of the chain, or up to `*bad`, which is the first that was refused.
Result<void> post_srq_recv(Srq& srq, const RecvWr& first, const RecvWr** bad = nullptr);

}  // namespace weft::core
