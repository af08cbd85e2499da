#include "programs/srp/target_link.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/assert.h"
#include "core/device.h"
#include "programs/rdma/host.h"
#include "programs/srp/queue_depth.h"
#include "programs/srp/target_events.h"

namespace weft::programs::srp {

using weft::iser::SendRequest;
using weft::srp::Segment;

namespace {

// Policy: an SRP_T_LOGOUT that has not gone by then does not go.
constexpr Duration kLinger = Duration::seconds(1);
// Policy: for a device that does not say when a QP takes no shared receive any more.
constexpr Duration kLastReceivePatience = Duration::seconds(1);
constexpr std::uint32_t kSignalInterval = 16;  // policy; what must be known is signalled anyway

/// Data has to precede its own response alone. Behind another one, which is not acknowledged yet,
/// it could not be placed (hca/rc/requester_placement.cc). `others` is room that is used again.
void put_data_first(weft::iser::SendRequests& chain, weft::iser::SendRequests& others) {
  const auto is_data = [](const auto& request) {
    return request->wr.opcode == verbs::WrOpcode::RdmaWrite && !request->done;
  };
  auto end_of_data = chain.begin();
  for (auto& request : chain) {
    if (is_data(request)) {
      *end_of_data++ = std::move(request);
    } else {
      others.push_back(std::move(request));
    }
  }
  std::ranges::move(others, end_of_data);
  others.clear();
}

}  // namespace

TargetLink::TargetLink(core::Environment& environment, core::Pd& pd,
                       std::unique_ptr<core::RdmaCmId> request,
                       const verbs::ConnectionParameters& offered, const TargetLinkOptions& options,
                       std::function<void()> settled)
    : environment_(environment),
      pd_(pd),
      offered_(offered),
      options_(options),
      settled_(std::move(settled)),
      cm_(environment, std::move(request),
          [this](const core::RdmaCmEvent& event) { handle_cm(event); }),
      linger_work_(environment, core::WorkContext::UnboundWorkQueue, 0, [this] { disconnect(); }),
      close_work_(environment, core::WorkContext::UnboundWorkQueue, 0,
                  [this] { tell([](weft::srp::Channel& channel) { channel.close(); }); }),
      establish_work_(environment, core::WorkContext::UnboundWorkQueue, 0, [this] { establish(); }),
      last_receive_work_(environment, core::WorkContext::UnboundWorkQueue, 0,
                         [this] { handle_last_receive(); }),
      patience_work_(environment, core::WorkContext::UnboundWorkQueue, 0,
                     [this] { handle_last_receive(); }) {}

TargetLink::~TargetLink() {
  linger_work_.cancel_and_wait();
  close_work_.cancel_and_wait();
  establish_work_.cancel_and_wait();
  last_receive_work_.cancel_and_wait();
  patience_work_.cancel_and_wait();
}

void TargetLink::bind(weft::srp::Target& target, weft::srp::ChannelId channel) {
  target_ = &target;
  id_ = channel;
}

weft::srp::Channel* TargetLink::channel() {
  return target_ == nullptr ? nullptr : target_->channel(id_);
}

template <class Tell>
void TargetLink::tell(Tell to) {
  if (weft::srp::Channel* const known = channel(); known != nullptr) {
    to(*known);
  }
  settled_();
}

Result<void> TargetLink::prepare() {
  const std::uint32_t wanted =
      std::min(options_.send_depth, pd_.device().attributes().max_qp_wr - 1);
  auto channel = make_as_deep_as_possible(wanted, [this](std::uint32_t send_depth) {
    return weft::iser::Channel::create(pd_,
                                       {.send_depth = send_depth,
                                        .receive_depth = options_.receives,
                                        .signal_interval = kSignalInterval,
                                        .shared = options_.shared,
                                        .cq_lingers = rdma::kCqLingers,
                                        .caller = "srpt",
                                        .qp_event = handle_qp_event,
                                        .qp_context = this},
                                       *this);
  });
  if (!channel) {
    return std::unexpected(channel.error());
  }
  if (auto used = cm_.id().use_qp((*channel)->qp()); !used) {
    return used;
  }
  channel_ = *std::move(channel);
  if (options_.shared != nullptr) {
    return {};
  }
  return channel_->open_ring(options_.receives, options_.max_initiator_iu);
}

void TargetLink::accept(ByteSpan login_rsp) {
  verbs::ConnectionParameters parameters;
  parameters.qpn = channel_->qp().number();
  // No more than the peer's REQ allows (IBTA vol 1 §12.7.28, §12.7.29); the target READs only.
  parameters.responder_resources = std::min<std::uint8_t>(1, offered_.responder_resources);
  parameters.initiator_depth = std::min(options_.reads, offered_.initiator_depth);
  parameters.flow_control = 1;
  parameters.rnr_retry_count = 7;
  parameters.private_data = {login_rsp.begin(), login_rsp.end()};
  if (const auto accepted = cm_.id().accept(parameters); !accepted) {
    environment_.log(core::LogLevel::Warning, accepted.error().reason);
    close_work_.queue();
  }
}

void TargetLink::reject(ByteSpan login_rej) {
  if (const auto rejected = cm_.id().reject(login_rej); !rejected) {
    environment_.log(core::LogLevel::Warning, rejected.error().reason);
  }
}

void TargetLink::send_dreq() {
  if (waiting_.empty() && channel_->sends().is_idle()) {
    disconnect();
  } else {
    linger_work_.queue(kLinger);
  }
}

void TargetLink::disconnect() {
  static_cast<void>(cm_.id().disconnect());  // refused: there is no connection
}

void TargetLink::fail() {
  if (std::exchange(has_failed_, true)) {
    return;
  }
  disconnect();
  channel_->drain();
  if (options_.shared != nullptr) {
    patience_work_.queue(kLastReceivePatience);
  }
}

/// The QP is in error. No receive of its own is flushed, which would say so.
void TargetLink::handle_last_receive() {
  if (channel_ != nullptr) {
    channel_->handle_last_receive();
    tell([](weft::srp::Channel& channel) { channel.close(); });
  }
}

void TargetLink::handle_cm(const core::RdmaCmEvent& event) {
  using enum verbs::RdmaCmEventType;
  tell([&event](weft::srp::Channel& channel) {
    switch (event.type) {
      case Established:
        channel.handle_rtu();
        break;
      case Disconnected:
        if (channel.state() == weft::srp::ChannelState::Disconnecting) {
          channel.handle_drep();
        } else {
          channel.handle_dreq();
        }
        break;
      case TimewaitExit:
        channel.handle_timewait_exit();
        break;
      case ConnectError:
      case Unreachable:
      case Rejected:
      case DeviceRemoval:
        channel.close();
        break;
      default:
        break;  // of ids that resolve, listen or have groups
    }
  });
}

void TargetLink::handle_qp_event(const core::Event& event, void* link) {
  auto& self = *static_cast<TargetLink*>(link);
  switch (action_of(event.type)) {
    case TargetEventAction::Establish:
      self.establish_work_.queue();
      break;
    case TargetEventAction::Close:
      self.close_work_.queue();
      break;
    case TargetEventAction::LastReceive:
      self.last_receive_work_.queue();
      break;
    case TargetEventAction::Ignore:
    case TargetEventAction::RefreshPort:
    case TargetEventAction::Report:
    case TargetEventAction::Leave:
      break;  // of no QP
  }
}

/// RDMA-CM waits no longer for the RTU, and says so; refused: the RTU has come meanwhile.
void TargetLink::establish() {
  static_cast<void>(cm_.id().notify(verbs::AsyncEventType::CommunicationEstablished));
}

void TargetLink::handle_message(weft::iser::ReceiveBuffer& buffer, ByteSpan octets,
                                std::optional<RKey> /*invalidated*/) {
  // librdmacm takes the QP to RTS with the REP, and the event of a first packet is of QPs in RTR:
  // that it is here says the same.
  const weft::srp::Channel* const known = channel();
  const bool is_early = known != nullptr && known->state() == weft::srp::ChannelState::Connecting;
  if (is_early && !std::exchange(has_early_message_, true)) {
    establish_work_.queue();
  }
  tell([octets](weft::srp::Channel& channel) { channel.handle_receive(octets); });
  channel_->give_back(buffer);
}

void TargetLink::handle_failure(verbs::WcStatus /*status*/) {
  tell([](weft::srp::Channel& channel) { channel.close(); });
}

/// What waited for room comes after all that was posted, and before the marker.
void TargetLink::handle_drained() {
  for (const Request& request : std::exchange(waiting_, {})) {
    if (request->done) {
      request->done(verbs::WcStatus::WorkRequestFlushed);
    }
  }
  is_drained_ = true;
  if (std::exchange(marker_is_due_, false)) {
    tell([](weft::srp::Channel& channel) { channel.handle_marker_done(false); });
  }
  settled_();
}

Result<void> TargetLink::check_open() const {
  return has_failed_ ? weft::fail(ErrorCode::ShutDown, "the QP is in error") : Result<void>{};
}

/// What completions that came together lead to is posted together.
void TargetLink::post_waiting() {
  if (!channel_->is_in_batch()) {
    flush();
  }
}

void TargetLink::flush() {
  while (!has_failed_ && !waiting_.empty() && channel_->sends().room() != 0) {
    const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(
                                            waiting_.size(), channel_->sends().room()));
    chain_.assign(std::move_iterator{waiting_.begin()}, std::move_iterator{end});
    waiting_.erase(waiting_.begin(), end);
    put_data_first(chain_, responses_);
    weft::iser::SendRequests refused;
    if (const auto posted = channel_->sends().post(chain_, &refused); !posted) {
      // Reported with what waits, when the QP has been drained.
      waiting_.insert(waiting_.begin(), std::move_iterator{refused.begin()},
                      std::move_iterator{refused.end()});
      close_work_.queue();
      return;
    }
  }
}

/// The unit stays where it is until that is reported.
TargetLink::Request TargetLink::make_response(std::size_t slot, ByteSpan unit) {
  auto request = channel_->sends().take();
  request->sges.push_back(channel_->sge_of(unit));
  request->wr.opcode = verbs::WrOpcode::Send;
  request->must_signal = true;
  request->done = [this, slot](verbs::WcStatus status) { handle_response_done(slot, status); };
  return request;
}

void TargetLink::handle_response_done(std::size_t slot, verbs::WcStatus status) {
  tell([&](weft::srp::Channel& channel) {
    channel.handle_send_done(slot, status == verbs::WcStatus::Success);
  });
  if (!linger_work_.is_idle() && waiting_.empty() && channel_->sends().is_idle() &&
      linger_work_.cancel_and_wait()) {
    disconnect();
  }
}

Result<void> TargetLink::post_send(std::size_t slot, ByteSpan unit) {
  if (auto open = check_open(); !open) {
    return open;
  }
  waiting_.push_back(make_response(slot, unit));
  post_waiting();
  return {};
}

Result<void> TargetLink::post_read(std::size_t slot, std::span<const Segment> from,
                                   MutableByteSpan into) {
  if (auto open = check_open(); !open) {
    return open;
  }
  struct Progress {
    std::size_t left{};
    bool failed{};
  };
  const auto progress = std::make_shared<Progress>();
  progress->left = static_cast<std::size_t>(
      std::ranges::count_if(from, [](const Segment& segment) { return segment.length != 0; }));
  WEFT_ASSERT(progress->left != 0, "a READ has octets");
  for (const Segment& segment : from) {
    if (segment.length == 0) {
      continue;
    }
    auto request = channel_->sends().take();
    request->sges.push_back(channel_->sge_of(into.first(segment.length)));
    into = into.subspan(segment.length);
    request->wr.opcode = verbs::WrOpcode::RdmaRead;
    request->wr.remote_address = segment.address;
    request->wr.rkey = segment.key;
    request->must_signal = true;
    request->done = [this, slot, progress](verbs::WcStatus status) {
      progress->failed = progress->failed || status != verbs::WcStatus::Success;
      if (--progress->left == 0) {
        tell([&](weft::srp::Channel& channel) {
          channel.handle_read_done(slot, !progress->failed);
        });
      }
    };
    waiting_.push_back(std::move(request));
  }
  post_waiting();
  return {};
}

/// As many RDMA WRITEs as the segments need, and the elements of a request allow.
Result<void> TargetLink::post_write_and_send(std::size_t slot, std::span<const ByteSpan> data,
                                             std::span<const Segment> to, ByteSpan unit) {
  if (auto open = check_open(); !open) {
    return open;
  }
  auto piece = data.begin();
  std::size_t used = 0;  // octets of the piece
  for (const Segment& segment : to) {
    std::size_t written = 0;  // octets of the segment
    while (written != segment.length && piece != data.end()) {
      auto request = channel_->sends().take();
      request->wr.opcode = verbs::WrOpcode::RdmaWrite;
      request->wr.remote_address = segment.address + written;
      request->wr.rkey = segment.key;
      while (request->sges.size() < weft::iser::Channel::kMaxSges && written != segment.length &&
             piece != data.end()) {
        const ByteSpan rest = piece->subspan(used);
        const std::size_t bytes = std::min<std::size_t>(segment.length - written, rest.size());
        request->sges.push_back(channel_->sge_of(rest.first(bytes)));
        written += bytes;
        used += bytes;
        if (used == piece->size()) {
          ++piece;
          used = 0;
        }
      }
      waiting_.push_back(std::move(request));
    }
  }
  waiting_.push_back(make_response(slot, unit));
  post_waiting();
  return {};
}

Result<void> TargetLink::post_marker() {
  if (has_failed_) {
    if (is_drained_) {
      return weft::fail(ErrorCode::ShutDown, "nothing is posted any more");
    }
    marker_is_due_ = true;
    return {};
  }
  auto request = channel_->sends().take();
  request->wr.opcode = verbs::WrOpcode::RdmaWrite;
  request->must_signal = true;
  request->done = [this](verbs::WcStatus status) {
    if (status == verbs::WcStatus::Success) {
      tell([](weft::srp::Channel& channel) { channel.handle_marker_done(true); });
    } else {
      tell([](weft::srp::Channel& channel) { channel.close(); });
    }
  };
  waiting_.push_back(std::move(request));
  post_waiting();
  return {};
}

}  // namespace weft::programs::srp
