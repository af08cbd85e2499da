#pragma once

// The target half of iSER: a datamover for src/iscsi that READs what commands write and WRITEs what
// they read (RFC 7145 §7.3, RFC 5047 §8). One thread: that of its completions.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/environment.h"
#include "core/work.h"
#include "iscsi/datamover.h"
#include "ulp/iser/channel.h"
#include "ulp/iser/connection_manager.h"
#include "ulp/iser/message.h"

namespace weft::iser {

struct TargetOptions {
  std::uint32_t receives{128};              ///< posted after login; a power of two
  std::uint32_t receive_data_bytes{8'192};  ///< of a PDU: MaxRecvDataSegmentLength of the target
  std::uint32_t send_depth{1'024};          ///< work requests; what is beyond waits
  std::uint8_t reads{16};                   ///< RDMA READs under way at once, at most
  std::uint32_t registered_transfers{64};   ///< at once, where the device needs regions for them
  bool uses_remote_invalidation{true};
  /// The adapter, where it can, makes, checks and takes off the tuples of what disks keep with
  /// protection information, in their place.
  bool uses_integrity{true};
  /// Whether initiators may send data that nobody asked for beside that of the command's PDU. Linux
  /// allows it to none, and libiscsi cannot do what it then negotiates.
  bool takes_unsolicited_data{true};
  /// After a logout, or whatever ends once all is sent, the initiator is to disconnect; if it has
  /// not by then, the target does. Initiators that expect it so, as libiscsi, do not bear the
  /// other way.
  Duration linger{Duration::seconds(1)};
  Duration cq_lingers{};  ///< core::CqInit::lingers
};

class TargetDatamover final : public iscsi::Datamover, public ChannelClient, public CmHandler {
 public:
  /// `handle_gone` is called once, from work of its own, after the client's handle_lost() and the
  /// end of the last command that a disk executes: the datamover may be freed when it has returned.
  TargetDatamover(core::Environment& environment, const TargetOptions& options,
                  std::function<void()> handle_gone);
  ~TargetDatamover();

  /// Must be called before accept(); outlives the datamover's handle_lost().
  void set_client(iscsi::DatamoverClient& client) { client_ = &client; }
  /// The answer to a request to connect; `cm` has this datamover for its handler. A refusal ends
  /// nothing: the datamover was not used.
  Result<void> accept(std::unique_ptr<CmId> cm, ByteSpan private_data);

  // --- Datamover
  void limit(iscsi::Preferences& preferences) const override;
  [[nodiscard]] bool agree(const iscsi::Parameters& agreed) override;
  void send_control(iscsi::OutgoingPdu pdu) override;
  void put_data(iscsi::OutgoingPdu data_in) override;
  void get_data(iscsi::OutgoingPdu r2t, MutableByteSpan into) override;
  [[nodiscard]] std::size_t max_protected_bytes() const override;
  void get_protected_data(iscsi::OutgoingPdu r2t, iscsi::ProtectedData into) override;
  void put_protected_data(iscsi::OutgoingPdu data_in, iscsi::ProtectedData from) override;
  /// Digests are the transport's business (RFC 7145 §7.1).
  void enable(bool header_digest, bool data_digest, std::size_t max_receive_bytes) override;
  [[nodiscard]] std::shared_ptr<const void> command_hold() const override { return hold_; }
  void terminate(Ending ending, std::string_view reason) override;

  /// A PDU whose SEND invalidates this key of the peer's: send_control() chooses the task's.
  void send_invalidating(const iscsi::OutgoingPdu& pdu, RKey rkey);

  // --- ChannelClient, CmHandler
  void handle_message(ReceiveBuffer& buffer, ByteSpan octets,
                      std::optional<RKey> invalidated) override;
  void handle_failure(verbs::WcStatus status) override;
  void handle_room() override;
  void handle_drained() override { lost_work_.queue(); }
  void handle_cm(const CmReport& report) override;

  [[nodiscard]] std::size_t tasks() const { return tasks_.size(); }
  /// Chains of work requests that were posted, and the requests in them.
  [[nodiscard]] std::uint64_t chains() const { return channel_->sends().chains(); }
  [[nodiscard]] std::uint64_t requests() const { return channel_->sends().total(); }
  /// Regions that transfers have now.
  [[nodiscard]] std::size_t regions() const { return channel_->qp().rdma_mrs.taken(); }
  [[nodiscard]] std::size_t integrity_regions() const {
    return channel_->qp().signature_mrs.taken();
  }
  [[nodiscard]] const std::string& reason() const { return reason_; }
  /// The client knows of the end, and what is waited for are its commands.
  [[nodiscard]] bool awaits_commands() const { return hold_ == nullptr; }

 private:
  /// What a command has read and was not sent yet: in one piece of memory, which `first` holds.
  struct DataIn {
    iscsi::OutgoingPdu first;
    std::uint32_t offset{};
    ByteSpan octets;
  };
  /// Where the memory of a command is, from its PDU until its response.
  struct TaskMemory {
    wire::iser::ControlHeader header;
    std::uint32_t write_bytes{};
    std::uint32_t read_bytes{};
    /// Offset in the command's data of the first octet at the Write Base Offset.
    std::optional<std::uint32_t> write_begin;
    std::optional<DataIn> data_in;
  };
  /// What an initiator's first message after login may be (RFC 7145 §5.1.3).
  enum class Hello : std::uint8_t {
    OutOfPlace,  ///< before login's end, and after the first message
    Refused,     ///< the initiator has declared that it sends none
    Welcome,     ///< nobody has said: initiators of RFC 5046 send one
    Due,         ///< both ends have agreed on it
  };
  [[nodiscard]] Result<void> open_and_accept(ByteSpan private_data);
  [[nodiscard]] bool take_command(const ControlMessage& message);
  /// False: it ends the connection.
  [[nodiscard]] bool take_hello(const wire::iser::Hello& hello);
  [[nodiscard]] bool take_control(const ControlMessage& message);
  [[nodiscard]] bool begin_full_feature();
  [[nodiscard]] SendRequests make_response(const iscsi::OutgoingPdu& pdu);
  void add_data(TaskMemory& memory, std::uint32_t offset, iscsi::OutgoingPdu part);
  void append_data(TaskMemory& memory, SendRequests& chain);
  [[nodiscard]] std::unique_ptr<SendRequest> make_invalidating(const iscsi::OutgoingPdu& pdu,
                                                               RKey rkey) const;
  [[nodiscard]] std::unique_ptr<SendRequest> move_protected(core::DmaDirection direction,
                                                            std::uint32_t tag,
                                                            const iscsi::ProtectedData& data,
                                                            std::uint64_t remote_address,
                                                            RKey rkey);
  void enqueue(std::unique_ptr<SendRequest> request);
  /// As one chain, once there is room for all of it.
  void enqueue(SendRequests chain);
  [[nodiscard]] Result<std::uint32_t> prepare(SendRequests& chain);
  [[nodiscard]] bool send(SendRequests& chain);
  void flush();
  void end_if_all_is_sent();
  void end(std::string_view reason);
  void lose();
  void go();
  /// All of the device's, which may be going and waits for no more than the id (R-IST-5).
  void free_resources();

  core::Environment& environment_;
  const TargetOptions options_;
  std::function<void()> handle_gone_;
  iscsi::DatamoverClient* client_{};
  std::unique_ptr<CmId> cm_;
  core::Pd* pd_{};
  std::unique_ptr<Channel> channel_;
  bool remote_invalidation_{};
  bool is_ring_open_{};
  Hello after_login_{Hello::Welcome};
  Hello hello_{Hello::OutOfPlace};
  std::deque<iscsi::OutgoingPdu> held_;  // until the Hello that is due has come
  bool is_refused_{};                    // its Hello was
  bool is_ending_{};
  bool ends_after_output_{};
  std::string reason_;
  std::unordered_map<std::uint32_t, TaskMemory> tasks_;  // by Initiator Task Tag
  std::deque<SendRequests> waiting_;                     // chains, for room, in order
  core::Work linger_work_;
  core::Work lost_work_;  // it is drained
  core::Work gone_work_;  // and its commands have ended
  std::shared_ptr<const void> hold_{this, [this](auto) { gone_work_.queue(); }};  // and commands'
};

}  // namespace weft::iser
