#include "ulp/iser/connection.h"

#include <bit>
#include <utility>

#include "base/assert.h"
#include "core/device.h"
#include "wire/iser/private_data.h"

namespace weft::iser {
namespace {

constexpr std::uint32_t kControlSends = 64;  // policy: beside commands, as Data-Out and NOP-Out

[[nodiscard]] ConnectionEvent event_of(CmEvent event) {
  switch (event) {
    case CmEvent::AddressResolved:
      return ConnectionEvent::AddressResolved;
    case CmEvent::RouteResolved:
      return ConnectionEvent::RouteResolved;
    case CmEvent::Established:
      return ConnectionEvent::Established;
    case CmEvent::AddressError:
    case CmEvent::RouteError:
    case CmEvent::ConnectError:
    case CmEvent::Unreachable:
    case CmEvent::Rejected:
      return ConnectionEvent::ConnectFailed;
    case CmEvent::Disconnected:
    case CmEvent::AddressChange:
    case CmEvent::TimewaitExit:
      return ConnectionEvent::Disconnected;
    case CmEvent::DeviceRemoval:
      return ConnectionEvent::DeviceRemoved;
  }
  return ConnectionEvent::ConnectFailed;
}

}  // namespace

Connection::Connection(core::Environment& environment, const ConnectionOptions& options,
                       std::function<void()> handle_down)
    : environment_(environment),
      options_(options),
      handle_down_(std::move(handle_down)),
      down_work_(environment, core::WorkContext::UnboundWorkQueue, 0, [this] { come_down(); }) {}

Connection::~Connection() {
  WEFT_ASSERT(state_ == ConnectionState::Init || state_ == ConnectionState::Down,
              "a connection is terminated before it goes");
  down_work_.cancel_and_wait();
  free_resources();
}

Result<void> Connection::connect(std::unique_ptr<CmId> cm, std::string_view address) {
  cm_ = std::move(cm);
  if (auto begun = cm_->resolve_address(address, kResolveTimeout); !begun) {
    return begun;
  }
  apply(ConnectionEvent::Connect, {});
  return {};
}

bool Connection::begin_termination(std::string_view reason) {
  const ConnectionState before = state_;
  apply(ConnectionEvent::Terminate, reason);
  return state_ != before;
}

void Connection::terminate(std::string_view reason) {
  begin_termination(reason);
  environment_.wait_until(
      [this] { return state_ == ConnectionState::Down && down_work_.is_idle(); }, Instant::never());
}

void Connection::free_resources() {
  if (state_ != ConnectionState::Down && state_ != ConnectionState::Init) {
    return;  // something is under way: it is freed when that has ended
  }
  arrivals_.clear();
  cm_.reset();  // which may still look at the QP
  channel_.reset();
  for (const auto& [tag, task] : std::exchange(tasks_, {})) {
    release_registrations(*task);
  }
  mapper_.reset();
  pool_.reset();
  if (core::Pd* const pd = std::exchange(pd_, nullptr); pd != nullptr) {
    const auto gone = core::deallocate_pd(*pd);
    WEFT_ASSERT(gone, "everything inside was this connection's");
  }
}

Result<void> Connection::bind(iscsi::DatamoverClient& client) {
  if (state_ != ConnectionState::Up) {
    return fail(ErrorCode::InvalidArgument, "the connection is {}, not up: connect another",
                name_of(state_));
  }
  if (client_ != nullptr) {
    return fail(ErrorCode::InvalidArgument, "the connection has its iSCSI layer already");
  }
  client_ = &client;
  return {};
}

void Connection::handle_cm(const CmReport& report) {
  if (report.event == CmEvent::Established) {
    const auto data = wire::parse<wire::iser::PrivateData>(report.private_data);
    remote_invalidation_ = offers_remote_invalidation() && data && !data->lacks_remote_invalidation;
  }
  apply(event_of(report.event), "the connection manager says so");
}

void Connection::apply(ConnectionEvent event, std::string_view reason) {
  const ConnectionTransition to = transition(state_, event);
  const bool is_answer = state_ == ConnectionState::Pending && to.next != ConnectionState::Pending;
  const bool ends = to.next >= ConnectionState::Terminating && state_ < to.next;
  if (ends && reason_.empty()) {
    reason_ = reason;
  }
  state_ = to.next;
  switch (to.action) {
    case ConnectionAction::Ignore:
    case ConnectionAction::ResolveAddress:  // connect() has, and was told
    case ConnectionAction::Complete:
      break;
    case ConnectionAction::ResolveRoute:
      if (const auto begun = cm_->resolve_route(kResolveTimeout); !begun) {
        apply(ConnectionEvent::ConnectFailed, begun.error().reason);
      }
      break;
    case ConnectionAction::SendRequest:
      if (const auto sent = send_request(); !sent) {
        apply(ConnectionEvent::ConnectFailed, sent.error().reason);
      }
      break;
    case ConnectionAction::Disconnect:
      cm_->disconnect();
      [[fallthrough]];
    case ConnectionAction::Drain:
      if (channel_ == nullptr) {
        apply(ConnectionEvent::Drained, {});
      } else {
        channel_->drain();
      }
      break;
    case ConnectionAction::FreeQp:
    case ConnectionAction::Destroy:
      down_work_.queue();  // not from inside the QP's completions
      break;
  }
  if (is_answer && answer_notice) {
    answer_notice();
  }
  environment_.notify();
}

Result<void> Connection::send_request() {
  core::Device* const device = cm_->device();
  if (device == nullptr) {
    return fail(ErrorCode::NoSuchDevice, "the address was resolved, but not to a device");
  }
  if (auto opened = open_resources(*device); !opened) {
    return opened;
  }
  if (auto set = cm_->set_qp(channel_->qp()); !set) {
    return set;
  }
  const auto data = wire::pack(
      wire::iser::PrivateData{.lacks_remote_invalidation = !offers_remote_invalidation()});
  verbs::ConnectionParameters parameters;
  parameters.qpn = channel_->qp().number();
  parameters.responder_resources = static_cast<std::uint8_t>(ird());
  parameters.initiator_depth = 1;
  parameters.retry_count = 7;
  parameters.rnr_retry_count = 6;
  parameters.private_data = {data.begin(), data.end()};
  return cm_->connect(parameters);
}

// Keys of regions that are registered for longer than a command, or of all memory, are not for the
// target to end (R-ISER-22).
bool Connection::offers_remote_invalidation() const {
  return options_.offers_remote_invalidation && pool_ != nullptr &&
         pool_->scheme() == RegistrationScheme::Fast;
}

Result<void> Connection::open_resources(core::Device& device) {
  const RegistrationScheme scheme = choose_scheme(device, options_.trusts_target);
  const auto pd = core::allocate_pd(device,
                                    scheme == RegistrationScheme::GlobalKey
                                        ? core::PdFlags{core::PdFlag::UnsafeGlobalRkey}
                                        : core::PdFlags{},
                                    "iser");
  if (!pd) {
    return std::unexpected(pd.error());
  }
  pd_ = *pd;
  mapper_ = std::make_unique<HeaderMapper>(device);
  const bool protects = options_.protects && scheme == RegistrationScheme::Fast &&
                        !host_protections_of(device.attributes()).empty();
  auto pool =
      RegistrationPool::create(*pd_, {.scheme = scheme,
                                      .count = 2 * options_.max_commands,
                                      .max_bytes = options_.max_transfer_bytes,
                                      .protected_count = protects ? options_.max_commands : 0,
                                      .kept_memory = options_.kept_memory});
  if (!pool) {
    return std::unexpected(pool.error());
  }
  pool_ = std::move(*pool);
  // A command, two registrations and their ends each.
  const std::uint32_t sends = 5 * options_.max_commands + kControlSends;
  auto channel = Channel::create(*pd_,
                                 {.send_depth = std::min(sends, device.attributes().max_qp_wr - 1),
                                  .receive_depth = 2 * std::bit_ceil(options_.max_commands) + 1,
                                  .signal_interval = options_.signal_interval,
                                  .has_integrity = protects,
                                  .cq_lingers = options_.cq_lingers},
                                 *this);
  if (!channel) {
    return std::unexpected(channel.error());
  }
  channel_ = std::move(*channel);
  return {};
}

void Connection::handle_failure(verbs::WcStatus status) {
  apply(ConnectionEvent::Terminate,
        fmt::format("a work request ended in status {}", std::to_underlying(status)));
}

void Connection::handle_room() {
  if (state_ == ConnectionState::Up) {
    deliver();
    if (room_notice) {
      room_notice();
    }
  }
}

void Connection::come_down() {
  free_resources();
  if (iscsi::DatamoverClient* const client = std::exchange(client_, nullptr); client != nullptr) {
    client->handle_lost(reason_, environment_.now());
  }
  if (auto handle = std::exchange(handle_down_, {}); handle) {
    handle();
  }
  environment_.notify();
}

}  // namespace weft::iser
