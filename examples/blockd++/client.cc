#include "client.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

namespace weft::blockd {
namespace {

[[nodiscard]] unsigned bit_of(verbs::RdmaCmEventType type) {
  return 1U << static_cast<unsigned>(type);
}

}  // namespace

Client::~Client() {
  if (id_ != nullptr && id_->qp() != nullptr) {
    static_cast<void>(id_->disconnect());
    static_cast<void>(core::drain_qp(*id_->qp()));
    id_->destroy_qp();
  }
  if (region_ != nullptr) {
    static_cast<void>(core::deregister_mr(*region_));
  }
  endpoint_.reset();
  id_.reset();  // no event comes any more
}

void Client::lose(ErrorCode code, std::string_view why) {
  {
    const std::lock_guard lock{mutex_};
    if (!lost_) {
      lost_ = Error{code, std::string{why}};
    }
  }
  environment_.notify();
}

Result<void> Client::check_state() {
  const std::lock_guard lock{mutex_};
  return lost_ ? Result<void>{std::unexpected(*lost_)} : Result<void>{};
}

Result<void> Client::await(verbs::RdmaCmEventType type) {
  const bool in_time = environment_.wait_until(
      [&] { return (seen_ & bit_of(type)) != 0 || !check_state(); }, environment_.now() + wait_);
  if (!in_time) {
    return fail(ErrorCode::TimedOut, "the server was waited for: {}", core::name_of(type));
  }
  return check_state();
}

void Client::handle_cm_event(core::RdmaCmId& /*id*/, const core::RdmaCmEvent& event,
                             std::unique_ptr<core::RdmaCmId> /*request*/) {
  using enum verbs::RdmaCmEventType;
  if (event.type == Established) {
    const auto told = ByteSpan{event.parameters.private_data};
    const auto offer = wire::parse<Export>(told.first(std::min<std::size_t>(told.size(), 16)));
    if (!offer || offer->magic != kMagic || offer->block_bytes != kBlockBytes) {
      lose(ErrorCode::Io, "what listens there is no blockd++");
    } else {
      export_ = *offer;
    }
  }
  if (event.type == AddressResolved || event.type == RouteResolved || event.type == Established) {
    seen_ |= bit_of(event.type);
    environment_.notify();
  } else {
    lose(event.type == Rejected ? ErrorCode::Refused : ErrorCode::Io, core::name_of(event.type));
  }
}

Result<void> Client::connect(const core::RdmaCmAddress& server, MutableByteSpan memory,
                             bool global_key) {
  using enum verbs::RdmaCmEventType;
  auto made = cm_.create_id(*this);
  if (!made) {
    return std::unexpected(made.error());
  }
  id_ = *std::move(made);
  if (auto asked = id_->resolve_address(server, wait_); !asked) {
    return asked;
  }
  if (auto resolved = await(AddressResolved); !resolved) {
    return resolved;
  }
  if (auto asked = id_->resolve_route(wait_); !asked) {
    return asked;
  }
  if (auto resolved = await(RouteResolved); !resolved) {
    return resolved;
  }
  if (id_->device() == nullptr) {
    return fail(ErrorCode::NoSuchDevice, "the way to the server begins at another device");
  }
  const core::PdFlags flags =
      global_key ? core::PdFlags{core::PdFlag::UnsafeGlobalRkey} : core::PdFlags{};
  if (auto there = endpoint_.make(*id_, kRequests, flags); !there) {
    return there;
  }
  memory_ = memory;
  if (global_key) {
    rkey_ = endpoint_.pd().unsafe_global_rkey();
  } else {
    const auto start = std::bit_cast<std::uint64_t>(memory.data());
    const auto region = core::register_user_mr(
        endpoint_.pd(), {.start = start, .length = memory.size(), .iova = start},
        verbs::AccessFlags{verbs::Access::LocalWrite} | verbs::Access::RemoteRead |
            verbs::Access::RemoteWrite,
        nullptr);
    if (!region) {
      return std::unexpected(region.error());
    }
    region_ = *region;
    rkey_ = region_->rkey;
  }
  for (Slot& slot : slots_) {
    slot.client = this;
    slot.sent.slot = &slot;
    if (auto posted = receive(slot); !posted) {
      return posted;
    }
  }
  if (auto asked = id_->connect(parameters()); !asked) {
    return asked;
  }
  return await(Established);
}

Result<void> Client::receive(Slot& slot) {
  const verbs::Sge sge = endpoint_.sge(slot.answer.data(), slot.answer.size());
  core::RecvWr wr;
  wr.wr_id = core::wr_id_of(slot.received);
  wr.sges = {&sge, 1};
  return core::post_recv(endpoint_.qp(), wr);
}

Result<void> Client::start(Operation operation, std::uint64_t block, std::uint32_t blocks,
                           std::size_t offset) {
  Slot* slot = nullptr;
  const bool in_time = environment_.wait_until(
      [&] {
        const auto free = std::ranges::find_if(slots_, [](Slot& one) { return one.awaits == 0; });
        slot = free != slots_.end() ? &*free : nullptr;
        return slot != nullptr || !check_state();
      },
      environment_.now() + wait_);
  if (auto sound = check_state(); !sound || !in_time) {
    return sound ? fail(ErrorCode::TimedOut, "no request was answered in time") : sound;
  }
  slot->awaits = kAwaitsSent | kAwaitsAnswer;
  slot->request =
      wire::pack(Request{.operation = operation,
                         .tag = static_cast<std::uint32_t>(slot - slots_.data()),
                         .first_block = block,
                         .blocks = blocks,
                         .rkey = rkey_,
                         .address = std::bit_cast<std::uint64_t>(memory_.data() + offset)});
  const verbs::Sge sge = endpoint_.sge(slot->request.data(), slot->request.size());
  core::SendWr wr;
  wr.wr_id = core::wr_id_of(slot->sent.handler);
  wr.opcode = verbs::WrOpcode::Send;
  wr.flags = verbs::Send::Signaled;
  wr.sges = {&sge, 1};
  return core::post_send(endpoint_.qp(), wr);
}

void Client::request_sent(core::Cq& /*cq*/, const core::Wc& wc) {
  Slot& slot = *static_cast<decltype(Slot::sent)*>(static_cast<void*>(wc.handler()))->slot;
  slot.client->settle(slot, kAwaitsSent);  // a failure flushes the receives, which say so
}

void Client::settle(Slot& slot, unsigned awaited) {
  slot.awaits &= ~awaited;
  environment_.notify();
}

void Client::answer_came(core::Cq& /*cq*/, const core::Wc& wc) {
  Slot& slot = *static_cast<Slot*>(static_cast<void*>(wc.handler()));
  Client& client = *slot.client;
  if (wc.status != verbs::WcStatus::Success || wc.byte_length != slot.answer.size()) {
    client.lose(ErrorCode::Io, "the connection has ended");
    return;
  }
  // Answers come in the order of their requests, receives in theirs: the tag says which is which.
  const auto answer = wire::unpack<Answer>(slot.answer);
  if (const auto posted = client.receive(slot); !posted) {
    client.lose(posted.error().code, posted.error().reason);
  }
  client.take_answer(answer);
}

void Client::take_answer(const Answer& answer) {
  if (answer.tag >= slots_.size() || (slots_[answer.tag].awaits & kAwaitsAnswer) == 0) {
    lose(ErrorCode::Io, "the server answers what nobody asked");
    return;
  }
  if (answer.status != Status::Done) {
    lose(ErrorCode::InvalidArgument, answer.status == Status::OutOfRange
                                         ? "the server has no such blocks"
                                         : "the server knows no such operation");
  }
  settle(slots_[answer.tag], kAwaitsAnswer);
}

Result<void> Client::finish() {
  const bool in_time = environment_.wait_until(
      [&] {
        return std::ranges::none_of(slots_, [](Slot& one) { return one.awaits != 0; }) ||
               !check_state();
      },
      environment_.now() + wait_);
  if (!in_time) {
    return fail(ErrorCode::TimedOut, "requests were not answered in time");
  }
  return check_state();
}

}  // namespace weft::blockd
