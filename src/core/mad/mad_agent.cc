#include "core/mad/mad_agent.h"

#include <utility>
#include <vector>

#include "core/device.h"

namespace weft::core {
namespace {

[[nodiscard]] verbs::WcStatus status_of(mad::TransactionStatus status) {
  switch (status) {
    case mad::TransactionStatus::Answered:
    case mad::TransactionStatus::Sent:
      return verbs::WcStatus::Success;
    case mad::TransactionStatus::TimedOut:
      return verbs::WcStatus::ResponseTimeout;
    case mad::TransactionStatus::Cancelled:
      return verbs::WcStatus::WorkRequestFlushed;
    case mad::TransactionStatus::RmppFailed:
      return verbs::WcStatus::RemoteAborted;
  }
  WEFT_ASSERT(false, "every status of a transaction is named above");
  return verbs::WcStatus::GeneralError;
}

}  // namespace

/// What the functions below do inside an agent or a snooper.
struct MadAgentAccess {
  using Interface = mad::ManagementInterface;

  static Result<MadAgent*> enter(MadPort& port, MadAgentInit init) {
    auto agent = std::make_unique<MadAgent>(port, std::move(init));
    const auto id = port.with_interface([&](Interface& interface, Instant) {
      return interface.register_agent(agent->init_.registration, agent.get());
    });
    if (!id) {
      return std::unexpected(id.error());
    }
    agent->id_ = *id;
    return agent.release();
  }

  static void leave(MadAgent& agent) {
    agent.port_.with_interface([&](Interface& interface, Instant now) {
      const auto gone = interface.unregister_agent(agent.id_, now);
      WEFT_ASSERT(gone, "an agent is unregistered once");
    });
    agent.port_.wait_for(agent);
    std::unique_ptr<MadAgent>{&agent}.reset();
  }

  static Result<MadSendId> post(MadAgent& agent, MadSend send) {
    return agent.port_.with_interface([&](Interface& interface, Instant now) {
      return send.timeout <= Duration{} ? post_once(agent, interface, std::move(send), now)
                                        : request(agent, interface, std::move(send), now);
    });
  }

  static Result<MadSendId> post_once(MadAgent& agent, Interface& interface, MadSend send,
                                     Instant now) {
    const auto posted = interface.post(agent.id_, send.to, std::move(send.message), now);
    if (!posted) {
      return std::unexpected(posted.error());
    }
    const MadSendId id{++agent.last_send_};
    agent.finish({.send = id, .context = send.context, .sends = 1});
    return id;
  }

  static Result<MadSendId> request(MadAgent& agent, Interface& interface, MadSend send,
                                   Instant now) {
    const MadSendId id{++agent.last_send_};
    const mad::TransactionOptions options{
        .timeout = send.timeout, .retries = send.retries, .doubles_timeout = false};
    const auto transaction = interface.send(
        agent.id_, send.to, std::move(send.message), options,
        [&agent, id](const mad::Completion& completion) { agent.complete(id, completion); }, now);
    if (!transaction) {
      return std::unexpected(transaction.error());
    }
    agent.pending_.emplace(id,
                           MadAgent::Pending{.transaction = *transaction, .context = send.context});
    return id;
  }

  static Result<void> modify(MadAgent& agent, MadSendId send, Duration timeout) {
    return agent.port_.with_interface([&](Interface& interface, Instant now) -> Result<void> {
      const auto found = agent.pending_.find(send);
      if (found == agent.pending_.end()) {
        return fail(ErrorCode::NotFound, "send {} is done", send.value());
      }
      const mad::TransactionId transaction = found->second.transaction;
      return timeout <= Duration{} ? interface.cancel(transaction, now)
                                   : interface.set_timeout(transaction, timeout, now);
    });
  }

  static Result<MadSnooper*> enter(MadPort& port, MadSnooper::Handler handler) {
    auto snooper = std::make_unique<MadSnooper>(port, std::move(handler));
    snooper->id_ = port.with_interface([&](Interface& interface, Instant) {
      return interface.add_snooper([snooper = snooper.get()](Interface::Direction direction,
                                                             const mad::MadAddress& address,
                                                             ByteSpan bytes) {
        const std::vector<std::byte> copy{bytes.begin(), bytes.end()};
        snooper->port_.defer(*snooper, [snooper, direction, address, copy] {
          snooper->handler_(direction, address, copy);
        });
      });
    });
    return snooper.release();
  }

  static void leave(MadSnooper& snooper) {
    snooper.port_.with_interface(
        [&](Interface& interface, Instant) { interface.remove_snooper(snooper.id_); });
    snooper.port_.wait_for(snooper);
    std::unique_ptr<MadSnooper>{&snooper}.reset();
  }
};

MadAgent::MadAgent(MadPort& port, MadAgentInit init) : port_(port), init_(std::move(init)) {}

MadAgent::~MadAgent() { WEFT_ASSERT(pending_.empty(), "an agent's sends end before it does"); }

/// Requests are answered by a post, as kernel users do it: nothing is returned here.
const mad::MadMessage* MadAgent::handle(mad::MadRequest& request) {
  receive({.source = request.source, .message = request.message, .answers = {}});
  return nullptr;
}

void MadAgent::handle_segment(const mad::MadAddress& source, const mad::MadBytes& segment) {
  receive({
      .source = source, .message = {.mad = segment, .is_rmpp = true, .data = {}},
           .answers = {}
  });
}

void MadAgent::receive(MadReceived received) {
  if (init_.on_receive) {
    port_.defer(*this,
                [this, received = std::move(received)] { init_.on_receive(*this, received); });
  }
}

void MadAgent::finish(MadSendDone done) {
  port_.defer(*this, [this, done] {
    if (init_.on_sent) {
      init_.on_sent(*this, done);
    }
  });
}

void MadAgent::complete(MadSendId send, const mad::Completion& completion) {
  const auto pending = pending_.extract(send);
  WEFT_ASSERT(!pending.empty(), "a send is done once");
  if (completion.answer != nullptr) {
    receive({.source = completion.source, .message = *completion.answer, .answers = send});
  }
  finish({.send = send,
          .context = pending.mapped().context,
          .status = status_of(completion.status),
          .rmpp_status = completion.rmpp_status,
          .sends = completion.sends});
}

Result<MadAgent*> register_mad_agent(MadService& service, Device& device, PortNumber port,
                                     MadAgentInit init) {
  const auto found = service.port(device, port, init.kind);
  if (!found) {
    return std::unexpected(found.error());
  }
  return MadAgentAccess::enter(**found, std::move(init));
}

void unregister_mad_agent(MadAgent& agent) { MadAgentAccess::leave(agent); }

Result<MadSendId> post_mad(MadAgent& agent, MadSend send) {
  return MadAgentAccess::post(agent, std::move(send));
}

void cancel_mad(MadAgent& agent, MadSendId send) {
  static_cast<void>(modify_mad(agent, send, Duration{}));
}

Result<void> modify_mad(MadAgent& agent, MadSendId send, Duration timeout) {
  return MadAgentAccess::modify(agent, send, timeout);
}

Result<MadSnooper*> register_mad_snooper(MadService& service, Device& device, PortNumber port,
                                         mad::InterfaceKind kind, MadSnooper::Handler handler) {
  const auto found = service.port(device, port, kind);
  if (!found) {
    return std::unexpected(found.error());
  }
  return MadAgentAccess::enter(**found, std::move(handler));
}

void unregister_mad_snooper(MadSnooper& snooper) { MadAgentAccess::leave(snooper); }

}  // namespace weft::core
