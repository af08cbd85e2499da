#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "base/identifiers.h"
#include "base/result.h"
#include "base/time.h"
#include "core/mad/mad_port.h"
#include "core/mad/mad_service.h"
#include "mad/management_interface.h"
#include "verbs/completion.h"

namespace weft::core {

class MadAgent;

/// Identifies a MAD that an agent sent. Never reused by the agent.
using MadSendId = Ordered<struct MadSendIdTag, std::uint64_t>;

/// A MAD to send (`struct ib_mad_send_buf`).
struct MadSend {
  mad::MadAddress to{};
  mad::MadMessage message{};  ///< of any length where the class has RMPP
  /// Until the request is sent again; 0: nothing answers it, as an answer or a trap.
  Duration timeout{};
  unsigned retries{};
  std::uint64_t context{};  ///< told again when the send is done
};

/// How a MAD that was sent ended, exactly once (`struct ib_mad_send_wc`).
struct MadSendDone {
  MadSendId send{};
  std::uint64_t context{};
  /// Success; ResponseTimeout; WorkRequestFlushed: cancelled, or its agent went; RemoteAborted:
  /// RMPP was given up.
  verbs::WcStatus status{verbs::WcStatus::Success};
  wire::RmppStatus rmpp_status{};
  unsigned sends{};  ///< how often it was sent
};

/// A MAD that came (`struct ib_mad_recv_wc`): whole, if it came in segments.
struct MadReceived {
  mad::MadAddress source{};  ///< where an answer goes
  mad::MadMessage message{};
  std::optional<MadSendId> answers{};  ///< the send that it answers, which is done right after
};

/// What an agent is for, and its handlers. They are called one after the other, without locks; they
/// may post and cancel, but not unregister the agent.
struct MadAgentInit {
  mad::InterfaceKind kind{mad::InterfaceKind::Gsi};
  mad::Registration registration{};
  std::function<void(MadAgent&, const MadReceived&)> on_receive{};
  std::function<void(MadAgent&, const MadSendDone&)> on_sent{};
};

/// An agent of a port's QP0 or QP1 as kernel users have it (`struct ib_mad_agent`): requests are
/// repeated and matched with their answers, and messages of any length cut and joined, by the
/// port's mad::ManagementInterface. Any thread.
class MadAgent final : private MadUser, private mad::MadHandler {
 public:
  MadAgent(MadPort& port, MadAgentInit init);
  ~MadAgent() override;

  [[nodiscard]] MadPort& port() const { return port_; }
  [[nodiscard]] Device& device() const { return port_.device(); }
  /// Upper half of the transaction IDs of its requests (`hi_tid`).
  [[nodiscard]] std::uint32_t transaction_id_high() const { return id_.value(); }

 private:
  friend struct MadAgentAccess;  // mad_agent.cc
  struct Pending {
    mad::TransactionId transaction{};
    std::uint64_t context{};
  };

  // Called with the port locked.
  const mad::MadMessage* handle(mad::MadRequest& request) override;
  void handle_segment(const mad::MadAddress& source, const mad::MadBytes& segment) override;
  void receive(MadReceived received);
  void finish(MadSendDone done);
  void complete(MadSendId send, const mad::Completion& completion);

  MadPort& port_;
  MadAgentInit init_;
  mad::AgentId id_{};
  std::uint64_t last_send_{};             // under the port's lock, as what follows
  std::map<MadSendId, Pending> pending_;  // requests without an answer
};

/// `ib_register_mad_agent`. NoSuchDevice: the port has no such QP; InvalidArgument, Busy: as
/// mad::AgentTable::add says.
Result<MadAgent*> register_mad_agent(MadService& service, Device& device, PortNumber port,
                                     MadAgentInit init);

/// Ends the agent's sends with WorkRequestFlushed, each told once. On return none of its handlers
/// runs, or will (`ib_unregister_mad_agent`).
void unregister_mad_agent(MadAgent& agent);

/// `ib_post_send_mad`. A refusal is told here only.
Result<MadSendId> post_mad(MadAgent& agent, MadSend send);

/// Ends a request with WorkRequestFlushed; nothing happens to one that is done
/// (`ib_cancel_mad`).
void cancel_mad(MadAgent& agent, MadSendId send);

/// Waits so long from now on for the answer to a request; 0 cancels it (`ib_modify_mad`).
/// NotFound: it is done.
Result<void> modify_mad(MadAgent& agent, MadSendId send, Duration timeout);

/// Sees every MAD of a port's QP0 or QP1 (`ib_register_mad_snoop`).
class MadSnooper final : private MadUser {
 public:
  using Handler = std::function<void(mad::ManagementInterface::Direction, const mad::MadAddress&,
                                     ByteSpan bytes)>;
  MadSnooper(MadPort& port, Handler handler) : port_(port), handler_(std::move(handler)) {}

 private:
  friend struct MadAgentAccess;
  MadPort& port_;
  Handler handler_;
  std::uint32_t id_{};
};

/// `handler` is called later, without locks, in the order of the MADs.
Result<MadSnooper*> register_mad_snooper(MadService& service, Device& device, PortNumber port,
                                         mad::InterfaceKind kind, MadSnooper::Handler handler);
/// A fence, as unregister_mad_agent().
void unregister_mad_snooper(MadSnooper& snooper);

}  // namespace weft::core
