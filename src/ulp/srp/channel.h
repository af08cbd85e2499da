#pragma once

// One RDMA channel of a target: its connection, its nexus at the SCSI target, and the commands that
// are under way on it. One thread: completions of devices on other threads are brought to it by
// whoever drives it. Nothing is called after `handle_released`.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/strong.h"
#include "scsi/target.h"
#include "ulp/srp/channel_state.h"
#include "ulp/srp/command_state.h"
#include "ulp/srp/request_limit.h"
#include "ulp/srp/target_connection.h"
#include "ulp/srp/transfer_plan.h"
#include "wire/srp/information_unit.h"

namespace weft::srp {

/// A channel of a target; never used twice.
using ChannelId = Ordered<struct ChannelIdTag, std::uint64_t>;

class Channel;
struct PendingManagement;

class ChannelOwner {
 public:
  /// Task management on `channel` ends the commands of every initiator at that unit: to be passed
  /// to the other channels' abort_fetches().
  virtual void abort_fetches(Channel& channel, std::uint64_t lun,
                             const std::shared_ptr<PendingManagement>& pending) = 0;
  /// Once: no completion comes any more, the nexus is gone, and no buffer is in use. The owner may
  /// destroy the channel, but not from inside this call.
  virtual void handle_released(Channel& channel) = 0;
  /// The nexus has no tasks any more, perhaps before the connection is gone.
  virtual void handle_nexus_closed(Channel& channel) = 0;

 protected:
  ~ChannelOwner() = default;
};

struct ChannelOptions {
  std::int32_t request_limit{};
  std::uint32_t max_initiator_iu{};
  std::uint32_t max_target_iu{};
  std::uint16_t immediate_offset{};
  std::uint64_t max_transfer_bytes{};
};

/// What a channel has seen; for tests and for people.
struct ChannelCounters {
  std::uint64_t commands{};
  std::uint64_t responses{};
  std::uint64_t refused_descriptors{};
  std::uint64_t violations{};  ///< of the protocol by the initiator, each of which ends the channel
  std::uint64_t failed_reads{};   ///< of commands' data
  std::uint64_t failed_writes{};  ///< of commands' data, which ended with a status alone
  // Of commands that ended in GOOD; one with data both ways is of both kinds.
  std::uint64_t reads{};          ///< with data for the initiator
  std::uint64_t read_bytes{};     ///< that it was sent
  std::uint64_t writes{};         ///< with data of the initiator
  std::uint64_t written_bytes{};  ///< that were used
  std::uint64_t aborts{};         ///< ABORT TASK, ABORT TASK SET and CLEAR TASK SET that came
  std::uint64_t resets{};         ///< LOGICAL UNIT RESET that came

  ChannelCounters& operator+=(const ChannelCounters& other);
  bool operator==(const ChannelCounters&) const = default;
};

class Channel final : private scsi::CommandClient {
 public:
  Channel(ChannelOwner& owner, ChannelId id, TargetConnection& connection, scsi::Target& target,
          scsi::NexusId nexus, const ChannelOptions& options);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // What the CM says.
  void handle_rtu() { apply(ChannelEvent::Rtu); }
  void handle_dreq() { apply(ChannelEvent::Dreq); }
  void handle_drep() { apply(ChannelEvent::Drep); }
  void handle_timewait_exit() { apply(ChannelEvent::TimewaitExit); }

  // What the QP says.
  void handle_receive(ByteSpan unit);
  void handle_send_done(std::size_t slot, bool succeeded);
  void handle_read_done(std::size_t slot, bool succeeded);
  void handle_marker_done(bool succeeded);

  /// Says SRP_T_LOGOUT, then DREQ.
  void disconnect();
  /// True for the caller that began to drain the channel (R-SRPT-11).
  bool close();

  /// Commands at that unit whose data is still read end without a response, and `pending` waits for
  /// their READs.
  void abort_fetches(std::uint64_t lun, const std::shared_ptr<PendingManagement>& pending);

  /// Credits follow with responses, or with an SRP_CRED_REQ.
  void set_request_limit(std::int32_t limit);
  /// SRP_AER_REQ. Busy: the initiator has not answered the one before.
  Result<void> report_event(std::uint64_t lun, ByteSpan sense);

  [[nodiscard]] ChannelId id() const { return id_; }
  [[nodiscard]] ChannelState state() const { return state_; }
  [[nodiscard]] const RequestLimit& request_limit() const { return limit_; }
  [[nodiscard]] const ChannelCounters& counters() const { return counters_; }
  [[nodiscard]] std::size_t waiting() const { return wait_list_.size(); }
  [[nodiscard]] std::size_t busy_slots() const;
  [[nodiscard]] bool is_released() const { return is_released_; }
  void check_invariants() const;

 private:
  struct Slot;
  using Unit = std::vector<std::byte>;
  enum ServiceSlot : std::size_t { kCredReq, kAerReq, kTLogout, kServiceSlots };

  void apply(ChannelEvent event);
  void drain();
  void release_if_quiet();
  void protocol_violation();

  void process_waiting();
  [[nodiscard]] bool process(ByteSpan unit, bool has_waited);
  void handle_request(Slot& slot, ByteSpan unit);

  // channel_commands.cc
  void handle_command(Slot& slot, ByteSpan unit);
  void fetch(Slot& slot);
  [[nodiscard]] bool post_next_read(Slot& slot);
  void execute(Slot& slot);
  void count_data(const Slot& slot, const scsi::Completion& completion);
  void handle_completion(scsi::Command& command, const scsi::Completion& completion) override;
  void respond(Slot& slot, const scsi::Completion& completion);
  void refuse(Slot& slot, scsi::SenseKey key, scsi::SenseCode code);
  [[nodiscard]] Result<void> post_status_only(Slot& slot, std::int32_t delta);
  void post_response(Slot& slot, const wire::SrpResponseUnit& unit);
  /// Returns the state that it found (R-SRPT-18).
  CommandState abort(Slot& slot);
  void finish(Slot& slot, CommandEvent event);
  void answer_credit_shortage();

  // channel_management.cc
  void handle_task_management(Slot& slot, const wire::SrpTskMgmt& request);
  void abort_fetch(Slot& slot, const std::shared_ptr<PendingManagement>& pending);
  static void end_wait(PendingManagement& pending);
  void respond_management(Slot& slot, wire::SrpResponseCode code);
  void handle_cred_rsp(ByteSpan unit);
  void handle_aer_rsp(ByteSpan unit);
  [[nodiscard]] bool post_service(ServiceSlot slot, Unit unit);

  [[nodiscard]] Slot* free_slot();
  [[nodiscard]] bool can_send() const { return state_ <= ChannelState::Disconnecting; }

  ChannelOwner& owner_;
  ChannelId id_;
  TargetConnection& connection_;
  scsi::Target& target_;
  scsi::NexusId nexus_;
  ChannelOptions options_;
  ChannelState state_{ChannelState::Connecting};
  RequestLimit limit_;
  ChannelCounters counters_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::deque<Unit> wait_list_;  // before the RTU, and while no slot is free; at most the limit
  std::vector<Unit> service_units_;
  std::vector<bool> service_busy_;
  std::optional<std::uint64_t> cred_req_tag_;  // unanswered
  std::optional<std::uint64_t> aer_tag_;
  std::uint64_t next_tag_{1};
  bool nexus_closed_{};
  bool is_released_{};
};

}  // namespace weft::srp
