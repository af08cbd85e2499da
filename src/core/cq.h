#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "base/flags.h"
#include "base/result.h"
#include "base/time.h"
#include "core/cq_linger.h"
#include "core/events.h"
#include "core/resource.h"
#include "core/work_request.h"

namespace weft::core {

class Work;

/// Who polls a managed CQ (`enum ib_poll_context`); numbers come from the C interface, so that
/// others are possible and refused.
enum class PollContext : std::uint8_t {
  Direct,            ///< its user, by process_cq_direct()
  SoftIrq,           ///< bounded rounds that never sleep
  WorkQueue,         ///< a thread of the completion vector's processor
  UnboundWorkQueue,  ///< any thread
};

enum class NotifyFlag : std::uint32_t {
  Solicited = 1U << 0,
  NextCompletion = 1U << 1,
  /// The call says whether completions are there that no event will be made for.
  ReportMissedEvents = 1U << 2,
};
using NotifyFlags = Flags<NotifyFlag>;

// Policy, the kernel's (R-CQ-6).
inline constexpr unsigned kCqBatch = 16;
inline constexpr unsigned kCqDirectBatch = 8;
inline constexpr int kCqSoftIrqBudget = 256;
inline constexpr int kCqWorkQueueBudget = 65'536;
/// Of a CQ that lingers: looks in one run of its context, before others have their turn. Policy.
inline constexpr unsigned kCqLooksInARow = 16;

/// What a managed CQ has done, for measurements.
struct CqCounters {
  std::uint64_t completions{};
  std::uint64_t batches{};        ///< polls of the driver that gave something
  std::uint64_t rounds{};         ///< runs of the context
  std::uint64_t missed_events{};  ///< rounds that follow since completions came while arming
  std::uint64_t armed{};          ///< how often a round ended in that
};

/// Completion queue. A managed one is polled by the core, which calls the handler that each work
/// request names; another one is its user's.
class Cq final : public Resource {
 public:
  Cq(Device& device, const char* caller, unsigned vector);
  ~Cq();

  [[nodiscard]] std::uint32_t capacity() const { return capacity_; }
  [[nodiscard]] unsigned vector() const { return vector_; }
  [[nodiscard]] void* context() const { return context_; }
  [[nodiscard]] bool is_managed() const { return is_managed_; }
  [[nodiscard]] PollContext poll_context() const { return poll_context_; }
  /// QPs, SRQs and WQs that use it.
  [[nodiscard]] std::uint32_t uses() const { return uses_.load(std::memory_order_acquire); }
  [[nodiscard]] CqCounters counters() const;
  /// Handlers of completions are being called: CqInit::on_batch_end() follows.
  [[nodiscard]] bool is_in_batch() const { return is_in_batch_.load(std::memory_order_relaxed); }

  void hold() { uses_.fetch_add(1, std::memory_order_relaxed); }
  void put() { uses_.fetch_sub(1, std::memory_order_acq_rel); }

  // --- for drivers
  /// The CQ was armed, and a completion that it was armed for has come. Any thread; no lock of the
  /// driver's that poll_cq or request_notify takes is held.
  void notify();
  /// An event of this CQ, for the handler that it was created with.
  void dispatch(const Event& event) const;
  void set_capacity(std::uint32_t capacity) { capacity_ = capacity; }

 private:
  friend struct CqAccess;  // core/cq.cc
  int process(int budget, std::span<Wc> batch);
  void log_unhandled(const Wc& wc) const;
  void tell(const Wc& wc);
  void poll_round();
  [[nodiscard]] bool leaves_nothing(int budget);

  std::uint32_t capacity_{};
  const unsigned vector_;
  void* context_{};
  bool is_managed_{};
  PollContext poll_context_{PollContext::Direct};
  void (*completion_handler_)(Cq& cq, void* context){};
  ObjectEventHandler event_handler_{};
  std::atomic<std::uint32_t> uses_{};
  std::atomic<bool> is_ending_{};  // the driver's CQ may be gone: it is polled no more
  std::unique_ptr<Wc[]> batch_;    // of the context
  std::unique_ptr<Work> work_;     // null: direct, or not managed
  std::atomic<std::uint64_t> completions_{};
  std::atomic<std::uint64_t> batches_{};
  std::atomic<std::uint64_t> rounds_{};
  std::atomic<std::uint64_t> missed_events_{};
  std::atomic<std::uint64_t> armed_{};
  CqLinger linger_{Duration{}};  // of the context
  std::atomic<bool> is_in_batch_{};
  void (*on_completion_)(Cq& cq, const Wc& wc){};
  void (*on_batch_end_)(Cq& cq){};
};

/// A managed CQ (`__ib_alloc_cq_user`).
struct CqInit {
  std::uint32_t entries{};  ///< at least so many
  unsigned vector{};        ///< completion vector, below the device's number of them
  PollContext poll_context{PollContext::WorkQueue};
  /// How long it is polled on after a completion before it is armed, while that finds more
  /// (CqLinger). For contexts whose thread waits for nothing else that could be slower.
  Duration lingers{};
  void* context{};
  const char* caller{"core"};
  UserData* user_data{};
  /// Called in place of the handlers that work requests name, for an interface whose handlers are
  /// of another kind (src/kernel); those of the core's own requests are called as ever.
  void (*on_completion)(Cq& cq, const Wc& wc){};
  /// Called after the handlers of completions that were polled together: what these have only
  /// prepared may be posted at once then.
  void (*on_batch_end)(Cq& cq){};
};
Result<Cq*> allocate_cq(Device& device, const CqInit& init);

/// The same with a completion vector of the core's choice: CQs spread over them (R-CQ-3).
Result<Cq*> allocate_any_cq(Device& device, CqInit init);

/// Busy while queues use it. After it no handler of its completions runs (R-CQ-5). Not from inside
/// one.
Result<void> free_cq(Cq& cq);

/// Polls up to `budget` completions (negative: all that are there) and calls their handlers in this
/// thread; how many (R-CQ-4). On a CQ of another context it may run beside that, and handlers with
/// it, in any order.
int process_cq_direct(Cq& cq, int budget);

/// A CQ whose user polls it (`ib_create_cq`).
struct UnmanagedCqInit {
  std::uint32_t entries{};
  unsigned vector{};
  void (*completion_handler)(Cq& cq, void* context){};
  ObjectEventHandler event_handler{};
  void* context{};
  const char* caller{"core"};
  UserData* user_data{};
};
Result<Cq*> create_cq(Device& device, const UnmanagedCqInit& init);
Result<void> destroy_cq(Cq& cq);

/// Takes up to that many completions; fewer: no more were there.
[[nodiscard]] unsigned poll_cq(Cq& cq, std::span<Wc> into);

/// Arms the CQ for one event. With ReportMissedEvents: whether completions were there already, for
/// which none will come.
Result<bool> request_notify(Cq& cq, NotifyFlags flags);

/// InvalidArgument: fewer than are in it; NotSupported: shared CQs, drivers without it.
Result<void> resize_cq(Cq& cq, std::uint32_t entries);

/// One event for so many completions, or after so long (`rdma_set_cq_moderation`).
Result<void> set_cq_moderation(Cq& cq, std::uint16_t count, Duration period);

}  // namespace weft::core
