#include "server.h"

#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "endpoint.h"
#include "protocol.h"

namespace weft::blockd {

using core::CompletionHandler;
using core::Cq;
using core::Wc;

/// One connection: requests come, data go by RDMA, answers follow them on the same QP.
class Server::Session {
 public:
  Session(Server& server, std::unique_ptr<core::RdmaCmId> id)
      : server_(server), id_(std::move(id)), slots_(kSlots) {}

  [[nodiscard]] core::RdmaCmId& id() const { return *id_; }

  Result<void> accept() {
    if (auto made = endpoint_.make(*id_, kSlots); !made) {
      return made;
    }
    for (Slot& slot : slots_) {
      slot.session = this;
      if (auto posted = receive(slot); !posted) {
        return posted;
      }
    }
    verbs::ConnectionParameters reply = parameters();
    const auto offer = wire::pack(Export{.blocks = server_.disk_.size() / kBlockBytes});
    reply.private_data.assign(offer.begin(), offer.end());
    return id_->accept(reply);
  }

 private:
  /// A client sends its next request as soon as it has an answer, perhaps before its slot is free.
  static constexpr std::uint32_t kSlots = 2 * kRequests;
  struct Slot {
    CompletionHandler handler{};  // first: found by its address
    Session* session{};
    std::array<std::byte, wire::kSizeOf<Request>> request{};
    std::array<std::byte, wire::kSizeOf<Answer>> answer{};
  };

  Result<void> receive(Slot& slot) {
    const verbs::Sge sge = endpoint_.sge(slot.request.data(), slot.request.size());
    core::RecvWr wr;
    slot.handler.done = request_came;
    wr.wr_id = core::wr_id_of(slot.handler);
    wr.sges = {&sge, 1};
    return core::post_recv(endpoint_.qp(), wr);
  }

  [[nodiscard]] static Slot& slot_of(const Wc& wc) {
    return *static_cast<Slot*>(static_cast<void*>(wc.handler()));
  }

  static void request_came(Cq& /*cq*/, const Wc& wc) {
    Slot& slot = slot_of(wc);
    if (wc.status != verbs::WcStatus::Success) {
      return;  // flushed: the connection has ended
    }
    if (wc.byte_length != slot.request.size() || !slot.session->serve(slot)) {
      static_cast<void>(slot.session->id_->disconnect());
    }
  }

  static void answer_sent(Cq& /*cq*/, const Wc& wc) {
    Slot& slot = slot_of(wc);
    if (wc.status == verbs::WcStatus::Success && !slot.session->receive(slot)) {
      static_cast<void>(slot.session->id_->disconnect());
    }
  }

  /// RDMA, if the request is sound, then the answer behind it: an RDMA WRITE is at the client
  /// before a SEND behind it is, and a SEND with a fence waits for an RDMA READ (C9-30).
  Result<void> serve(Slot& slot) {
    const auto request = wire::unpack<Request>(slot.request);
    const Status status = check(request, server_.disk_.size() / kBlockBytes);
    slot.answer = wire::pack(Answer{.status = status, .tag = request.tag});
    ++server_.requests_;
    slot.handler.done = answer_sent;
    const verbs::Sge answer = endpoint_.sge(slot.answer.data(), slot.answer.size());
    core::SendWr send;
    send.wr_id = core::wr_id_of(slot.handler);
    send.opcode = verbs::WrOpcode::Send;
    send.flags = verbs::SendFlags{verbs::Send::Signaled} | verbs::Send::Fence;
    send.sges = {&answer, 1};
    if (status != Status::Done) {
      return core::post_send(endpoint_.qp(), send);
    }
    const verbs::Sge data = endpoint_.sge(&server_.disk_[request.first_block * kBlockBytes],
                                          std::size_t{request.blocks} * kBlockBytes);
    core::SendWr move;
    move.next = &send;
    move.wr_id = core::wr_id_of(slot.handler);
    move.opcode = request.operation == Operation::Read ? verbs::WrOpcode::RdmaWrite
                                                       : verbs::WrOpcode::RdmaRead;
    move.sges = {&data, 1};
    move.remote_address = request.address;
    move.rkey = request.rkey;
    return core::post_send(endpoint_.qp(), move);
  }

  Server& server_;
  std::unique_ptr<core::RdmaCmId> id_;
  std::vector<Slot> slots_;
  Endpoint endpoint_;  // gone first: handlers of its completions use the slots
};

Server::Server(core::RdmaCm& cm, core::Device& device, std::size_t bytes)
    : cm_(cm), device_(device), disk_(bytes / kBlockBytes * kBlockBytes) {}

Server::~Server() {
  listener_.reset();
  std::list<std::unique_ptr<Session>> left;
  {
    const std::lock_guard lock{mutex_};
    left.swap(sessions_);
  }
  left.clear();  // without the lock: a handler may wait for it
  device_.environment().wait_until([this] { return ending_ == 0; }, Instant::never());
}

Result<std::uint16_t> Server::listen(const core::RdmaCmAddress& address) {
  auto made = cm_.create_id(*this);
  if (!made) {
    return std::unexpected(made.error());
  }
  listener_ = *std::move(made);
  constexpr int kBacklog = 16;  // policy
  if (const auto bound = listener_->bind(address); !bound) {
    return std::unexpected(bound.error());
  }
  if (const auto listens = listener_->listen(kBacklog); !listens) {
    return std::unexpected(listens.error());
  }
  return listener_->source_port();
}

std::size_t Server::sessions() {
  const std::lock_guard lock{mutex_};
  return sessions_.size();
}

void Server::handle_cm_event(core::RdmaCmId& id, const core::RdmaCmEvent& event,
                             std::unique_ptr<core::RdmaCmId> request) {
  using enum verbs::RdmaCmEventType;
  if (event.type == ConnectRequest) {
    if (request->device() != &device_) {
      return;  // rejected: it came by another device
    }
    auto session = std::make_unique<Session>(*this, std::move(request));
    if (const auto accepted = session->accept(); !accepted) {
      device_.environment().log(core::LogLevel::Warning, accepted.error().reason);
      const std::string_view why = "no resources";
      static_cast<void>(session->id().reject(std::as_bytes(std::span{why})));
      return;
    }
    const std::lock_guard lock{mutex_};
    sessions_.push_back(std::move(session));
    return;
  }
  if (event.type == Disconnected || event.type == ConnectError || event.type == Unreachable ||
      event.type == Rejected || event.type == DeviceRemoval) {
    static_cast<void>(id.disconnect());  // answers a DREQ
    end_session(id);
  }
}

/// The server waits for it, since it is not in the list any more.
void Server::end_session(const core::RdmaCmId& id) {
  core::Environment& environment = device_.environment();
  ++ending_;
  std::unique_ptr<Session> ended;
  {
    const std::lock_guard lock{mutex_};
    std::erase_if(sessions_, [&](auto& session) {
      if (&session->id() != &id) {
        return false;
      }
      ended = std::move(session);
      return true;
    });
  }
  ended.reset();
  --ending_;
  environment.notify();
}

}  // namespace weft::blockd
