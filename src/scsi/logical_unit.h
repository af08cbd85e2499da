#pragma once

// The task router, task set and device server of one logical unit (SAM-5 §4.6.19, §8).

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/lock.h"
#include "scsi/command_table.h"
#include "scsi/media.h"
#include "scsi/range_locks.h"
#include "scsi/unit_state.h"

namespace weft::scsi {

/// Something that waits until several things have ended. `done` is called once, without a lock
/// held.
class Pending {
 public:
  explicit Pending(std::function<void()> done) : done_(std::move(done)) {}
  void add() { left_.fetch_add(1, std::memory_order_relaxed); }
  /// True for the last one, who then has to call finish().
  [[nodiscard]] bool drop() { return left_.fetch_sub(1, std::memory_order_acq_rel) == 1; }
  void finish() { done_(); }

 private:
  std::atomic<std::size_t> left_{1};  // one for whoever adds
  std::function<void()> done_;
};
using PendingPtr = std::shared_ptr<Pending>;

/// One logical unit. Any thread, with LockPolicy::Spin: what is decided is decided under the unit's
/// lock, in the order in which commands come; the device, the store and the transports are called
/// without it. Must be owned by a shared_ptr.
class LogicalUnit final : public std::enable_shared_from_this<LogicalUnit> {
 public:
  /// The device must outlive the unit and all of its commands.
  LogicalUnit(const UnitOptions& options, BlockDevice& device, LockPolicy locks,
              std::shared_ptr<UnitDirectory> directory = nullptr);
  ~LogicalUnit();

  /// `joins`: as a further channel of the I_T nexus of that name that was attached last.
  void attach(NexusId id, const NexusName& name, bool joins = false);
  /// As that, for a CopyTarget.
  void attach_copy_manager(NexusId id, const NexusName& name);
  /// Aborts the nexus's commands and forgets it, with its RESERVE; its registrations stay.
  void detach(NexusId id, const PendingPtr& pending);
  void add_port(const PortOptions& port);
  /// What REPORT LUNS lists; others than `id` get a unit attention if `changed`.
  void set_luns(const std::vector<Lun>& luns, bool changed);
  /// After the device has become larger.
  void announce_capacity();
  Result<void> set_access_state(std::uint16_t group, AccessState state);
  [[nodiscard]] Result<void> restore_reservations(ByteSpan image);
  /// What a SanitizeStore has kept: the SANITIZE begins again, or has failed. Before the first
  /// command. Io: it is not of a disk like this one.
  [[nodiscard]] Result<void> restore_sanitize(ByteSpan image);

  /// As of the target.
  [[nodiscard]] std::optional<BlockProtection> protection_of(ByteSpan cdb) const;
  [[nodiscard]] SenseData::Format sense_format() const;
  [[nodiscard]] BlockGeometry geometry() const { return state_.device->geometry(); }

  void submit(Command& command);
  /// The response; `pending` also waits for what was aborted.
  TaskManagementResponse manage(NexusId id, TaskManagement function, std::uint64_t tag,
                                const PendingPtr& pending);
  /// Aborts everything, as when the unit goes away; no status is sent.
  void abort_all(const PendingPtr& pending);

  [[nodiscard]] std::size_t tasks() const;

 private:
  struct Task;
  struct Sanitize;
  struct Work;
  struct Save {
    std::uint64_t number{};
    std::vector<std::byte> image;
    Task* task{};
  };
  enum class AbortedBy : std::uint8_t { Nobody, Itself, Another };

  // Under the lock; what has to be done without it is put into `work`.
  void accept(Command& command, Work& work);
  [[nodiscard]] Outcome<void> admit(const Command& command, const UnitNexus& nexus) const;
  [[nodiscard]] bool passes_aca(const Command& command) const;
  [[nodiscard]] bool may_enable(const Task& task) const;
  void enable_tasks(Work& work);
  void enable(Task& task, Work& work);
  [[nodiscard]] Outcome<void> prepare(Task& task, CommandContext& context);
  [[nodiscard]] Outcome<void> check_access_state(const CommandContext& context) const;
  void start(Task& task, CommandContext& context, Work& work);
  void start_media(Task& task, MediaCommand media, Work& work);
  void defer(Task& task, CommandContext& context, Work& work);
  void end_media(Task& task, Work& work);
  void keep_copy_result(const Task& task);
  [[nodiscard]] Outcome<void> check_sanitize(const CommandContext& context) const;
  void start_sanitize(Task& task, SanitizeOrder order, Work& work);
  void keep_sanitize(std::vector<std::byte> image, Work& work);
  void save_sanitize(std::vector<std::byte> image);
  void go_on_with_sanitize(bool is_kept, Work& work);
  void begin_sanitize(Work& work);
  void finish_sanitize(bool is_kept, Work& work);
  void begin_sanitize_pass();
  void end_sanitize_pass(Work& work);
  void finish(Task& task, Work& work);
  void apply_check_condition(const Task& task, Work& work);
  void clear_aca(Work& work);
  template <class Predicate>
  void abort_if(Predicate matches, AbortedBy by, const PendingPtr& pending, Work& work);
  void reset(SenseCode code, const PendingPtr& pending, Work& work);
  TaskManagementResponse manage_locked(NexusId id, TaskManagement function, std::uint64_t tag,
                                       const PendingPtr& pending, Work& work);

  // Without the lock.
  void perform(Work& work);
  void complete(Task* task);
  void save(Save& order);
  void resume(Task& task);
  void end_deferred(Task& task);

  mutable PolicyLock lock_;
  UnitState state_;
  std::vector<Task*> tasks_;  // in the order of their arrival
  std::size_t ordering_{};    // of them, those that others wait for: ORDERED and HEAD OF QUEUE
  std::size_t dormant_{};
  bool enabling_{};
  std::optional<NexusId> aca_;  // the faulted nexus
  RangeLocks<Task> ranges_;
  std::uint64_t saves_{};
  std::unique_ptr<Sanitize> sanitize_;  // while one runs
};

}  // namespace weft::scsi
