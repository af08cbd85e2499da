#pragma once

// One connection of an initiator: RDMA-CM's events, the QP, and tasks with their data (R-ISER-1 to
// 23). The iSCSI layer above sees PDUs only. One thread: that of the environment's work.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/environment.h"
#include "core/work.h"
#include "iscsi/datamover.h"
#include "ulp/iser/channel.h"
#include "ulp/iser/connection_manager.h"
#include "ulp/iser/connection_state.h"
#include "ulp/iser/message.h"
#include "ulp/iser/registration.h"
#include "ulp/iser/task.h"
#include "ulp/iser/transmit_descriptor.h"
#include "ulp/iser/unsolicited_plan.h"

namespace weft::iser {

struct ConnectionOptions {
  std::uint32_t max_commands{128};            ///< at a time
  std::uint32_t max_transfer_bytes{1 << 20};  ///< of a command, each way
  std::uint32_t receive_data_bytes{512};      ///< of a PDU after login; whole sense data fits
  std::uint32_t signal_interval{32};          // policy, as Linux
  bool offers_remote_invalidation{true};
  bool trusts_target{};  ///< with a key for all memory
  bool protects{};       ///< commands may have T10-PI, where the device can register it
  /// Targets of Linux and tgt know no Hello.
  iscsi::HelloPolicy hello{iscsi::HelloPolicy::Never};
  Duration cq_lingers{};         ///< core::CqInit::lingers
  FindKeptMemory kept_memory{};  ///< where tasks have their data; RegistrationPool::Options
};

class Connection final : public ChannelClient, public CmHandler {
 public:
  static constexpr std::size_t kLoginBytes = 8192;  // RFC 7143 §13.12: data until login ends
  static constexpr Duration kResolveTimeout = Duration::milliseconds(1'000);

  /// `cm` is made with this connection for its handler. `handle_down` is called once, from work of
  /// its own, when no completion comes any more.
  Connection(core::Environment& environment, const ConnectionOptions& options,
             std::function<void()> handle_down);
  ~Connection();

  // --- life
  Result<void> connect(std::unique_ptr<CmId> cm, std::string_view address);
  /// True: this call began the end (R-ISER-8, without waiting).
  bool begin_termination(std::string_view reason);
  /// Waits until the connection is down.
  void terminate(std::string_view reason);
  /// The QP, once it is drained, then the pool and the PD. All of it whenever the connection comes
  /// down, since it has no id any more that would hear of the device's going. Any number of times
  /// (R-ISER-10).
  void free_resources();
  [[nodiscard]] ConnectionState state() const { return state_; }
  /// Down, and everybody has been told.
  [[nodiscard]] bool is_released() const {
    return state_ == ConnectionState::Down && !handle_down_ && down_work_.is_idle();
  }
  [[nodiscard]] const std::string& reason() const { return reason_; }
  /// Binds the iSCSI layer above; InvalidArgument unless the connection is up (R-ISER-4).
  Result<void> bind(iscsi::DatamoverClient& client);
  [[nodiscard]] bool is_bound() const { return client_ != nullptr; }
  /// Without its iSCSI layer from now on.
  void unbind() { client_ = nullptr; }
  /// What login agreed on. False: a Hello is on its way, and until the target's reply to it
  /// transmit() and send_control() are to be tried again; the iSCSI layer hears of that reply by
  /// handle_agreed() (RFC 7145 §5.1.3).
  [[nodiscard]] bool agree(const TransferParameters& agreed);

  // --- tasks
  /// Shows a task's headers to the device. NoSuchDevice: the connection is not up, and its device
  /// may be going; OutOfMemory: they cannot be shown (R-ISER-14).
  Result<void> initialise_task_headers(TransmitDescriptor& descriptor);
  /// The same for a task whose headers are written, and takes them (R-ISER-15). transmit() does it
  /// where it was not done.
  Result<void> initialise_task(Task& task);
  /// The command once, then its unsolicited data as far as there is room (R-ISER-17). TryAgain:
  /// call again after handle_room; any other error ends the task, not the connection.
  Result<void> transmit(Task& task);
  /// A task that is no SCSI command, with its own data (R-ISER-16). TryAgain: later.
  Result<void> transmit_management(Task& task);
  /// A control-type PDU without a task. TryAgain: later.
  Result<void> send_control(const iscsi::OutgoingPdu& pdu);
  /// The task's memory is the caller's again, and at the target nobody reaches it: at once after
  /// its response or after handle_lost(). A task without response ends with the connection first:
  /// Busy. Where the device has gone it is not asked to unmap anything (R-ISER-19).
  Result<void> cleanup_task(Task& task);

  [[nodiscard]] bool awaits_hello_reply() const { return awaits_hello_reply_; }
  [[nodiscard]] bool uses_remote_invalidation() const { return remote_invalidation_; }
  [[nodiscard]] RegistrationPool* registrations() { return pool_.get(); }
  [[nodiscard]] const ConnectionOptions& options() const { return options_; }
  /// Task headers that the device is shown.
  [[nodiscard]] std::size_t mapped_headers() const { return mapper_ ? mapper_->mapped() : 0; }
  [[nodiscard]] Channel* channel() { return channel_.get(); }
  std::function<void()> answer_notice;  ///< it is pending no more: up, or on its way down
  std::function<void()> room_notice;    ///< transmit() and send_control() may go on

  // --- CmHandler, ChannelClient
  void handle_cm(const CmReport& report) override;
  void handle_message(ReceiveBuffer& buffer, ByteSpan octets,
                      std::optional<RKey> invalidated) override;
  void handle_failure(verbs::WcStatus status) override;
  void handle_room() override;
  void handle_drained() override { apply(ConnectionEvent::Drained, {}); }

 private:
  /// A PDU for the iSCSI layer; those of tasks wait until their memory is out of reach.
  struct Arrival {
    ReceiveBuffer* buffer{};
    ControlMessage message;
    Task* task{};
  };
  void apply(ConnectionEvent event, std::string_view reason);
  Result<void> send_request();
  [[nodiscard]] bool offers_remote_invalidation() const;
  Result<void> open_resources(core::Device& device);
  void come_down();
  [[nodiscard]] Result<Registration> register_side(Task& task, bool target_writes,
                                                   SendRequests& requests);
  [[nodiscard]] Result<void> check_room(const Task& task) const;
  [[nodiscard]] Result<wire::iser::ControlHeader> register_data(Task& task, SendRequests& requests);
  Result<void> send_command(Task& task);
  Result<void> send_data_out(Task& task);
  void release_registrations(Task& task);
  void append_data(SendRequest& request, Task& task, std::uint32_t offset, std::uint32_t bytes);
  [[nodiscard]] bool take_invalidation(Task* task, std::optional<RKey> invalidated);
  void hide(Task& task);
  /// Room in the send queue that commands under way may need to invalidate their keys.
  [[nodiscard]] std::uint32_t reserved_sends() const {
    return 2 * static_cast<std::uint32_t>(tasks_.size());
  }
  Result<void> begin_full_feature();
  Result<void> send_hello();
  [[nodiscard]] Result<void> check_hello_reply(const wire::iser::HelloReply& reply) const;
  void take_hello_reply(const wire::iser::HelloReply& reply);
  [[nodiscard]] std::uint16_t ird() const;
  void deliver();

  core::Environment& environment_;
  const ConnectionOptions options_;
  std::function<void()> handle_down_;
  ConnectionState state_{ConnectionState::Init};
  std::string reason_;
  std::unique_ptr<CmId> cm_;
  core::Pd* pd_{};
  std::unique_ptr<HeaderMapper> mapper_;  // as long as the device
  DescriptorPool descriptors_;
  std::unique_ptr<RegistrationPool> pool_;
  std::unique_ptr<Channel> channel_;
  iscsi::DatamoverClient* client_{};
  TransferParameters agreed_;
  bool remote_invalidation_{};
  bool is_full_feature_{};
  bool awaits_hello_reply_{};
  bool is_delivering_{};
  std::unordered_map<std::uint32_t, Task*> tasks_;  // sent, by Initiator Task Tag
  std::deque<Arrival> arrivals_;
  core::Work down_work_;
};

}  // namespace weft::iser
