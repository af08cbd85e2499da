#include "programs/srp/initiator_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/assert.h"
#include "core/device.h"
#include "programs/iscsi/transport.h"
#include "ulp/iser/registration.h"
#include "ulp/srp/session.h"
#include "wire/srp/login.h"
#include "wire/srp/srp_codes.h"

namespace weft::programs::srp {

using weft::srp::LocalPiece;
using weft::srp::Mapping;

namespace {

constexpr Duration kResolveTimeout = Duration::milliseconds(1'000);
constexpr Duration kLongestEnding = Duration::seconds(5);  // policy: an end takes milliseconds
constexpr Duration kLinger = Duration::milliseconds(200);  // policy: for an SRP_I_LOGOUT
constexpr std::uint32_t kReceives = 256;                   // policy: for as many credits
/// Linux's target says that it sends units as long as those that it is asked to take (ib_srpt: both
/// lengths of the response are REQUESTED MAXIMUM INITIATOR TO TARGET IU LENGTH), so they have room.
constexpr std::uint32_t kReceiveBytes = weft::srp::SessionOptions{}.max_request_iu;
constexpr std::uint32_t kSendDepth = 512;           // policy; what is beyond waits
constexpr std::uint32_t kSignalInterval = 16;       // policy
constexpr std::uint32_t kRegistrations = 128;       // policy: commands with one at a time
constexpr std::uint32_t kMostRegistered = 1 << 20;  // policy: of one; the target's transfers
constexpr int kStaleConnection = 10;                // IBTA vol 1 §12.6.7.2

[[nodiscard]] std::string text_of(const Gid& gid) {
  return fmt::format("{:016x}:{:016x}", gid.prefix(), gid.interface_id().value());
}

}  // namespace

/// One channel, from its REQ until no completion comes any more.
struct InitiatorLink::Attempt final : weft::iser::ChannelClient {
  explicit Attempt(InitiatorLink& whose) : link(whose) {}

  void handle_message(weft::iser::ReceiveBuffer& buffer, ByteSpan octets,
                      std::optional<RKey> /*invalidated*/) override {
    if (is_wanted()) {
      link.client_.handle_unit(octets);
    }
    channel->give_back(buffer);
  }
  void handle_failure(verbs::WcStatus status) override {
    link.lose(*this, fmt::format("a work request ended in status {}", std::to_underlying(status)));
  }
  void handle_room() override { post_waiting(); }
  void handle_drained() override {
    is_drained = true;
    link.collect_work_.queue();
  }
  [[nodiscard]] bool is_wanted() const { return link.attempt_.get() == this; }
  void handle_batch_end() override { flush(); }
  /// What completions that came together lead to is posted together.
  void post_waiting() {
    if (!channel->is_in_batch()) {
      flush();
    }
  }
  void flush() {
    while (is_wanted() && !waiting.empty() && channel->sends().room() != 0) {
      const auto end = waiting.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(
                                             waiting.size(), channel->sends().room()));
      chain.assign(std::move_iterator{waiting.begin()}, std::move_iterator{end});
      waiting.erase(waiting.begin(), end);
      for (const auto& one : chain) {
        one->must_signal = one->must_signal || link.lingers_;
      }
      if (!channel->sends().post(chain)) {
        return;  // the QP is in error, and its receives say so
      }
    }
  }

  /// What is registered is not reached any more: no request of the QP is under way.
  ~Attempt() {
    for (auto& [token, registration] : registered) {
      registrations->release(registration);
    }
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  [[nodiscard]] Result<Mapping> register_memory(std::span<const LocalPiece> pieces);
  void hide(std::uint64_t token);

  InitiatorLink& link;
  std::vector<std::byte> login;
  std::unique_ptr<weft::iser::RegistrationPool> registrations;   // null: the device has none
  std::map<std::uint64_t, weft::iser::Registration> registered;  // by token
  std::unique_ptr<weft::iser::Channel> channel;
  std::unique_ptr<LoopCmId> cm;
  std::deque<std::unique_ptr<weft::iser::SendRequest>> waiting;  // for room, in order
  weft::iser::SendRequests chain;                                // empty but while it is posted
  std::string failure;                                           // of a call: told later
  std::unique_ptr<core::Work> fail;                              // tells it
  bool is_up{};
  bool is_drained{};
};

InitiatorLink::InitiatorLink(InitiatorDevice& device, TargetUrl target, InitiatorLinkClient& client)
    : target_(std::move(target)),
      client_(client),
      device_(device),
      host_(device.host()),
      collect_work_(host_.environment(), core::WorkContext::UnboundWorkQueue, 0,
                    [this] { collect(); }) {}

std::string InitiatorLink::where() const {
  return target_.native ? fmt::format("{} service ID {:016x}", text_of(target_.native->gid),
                                      target_.native->service_id)
                        : target_.address;
}

Gid InitiatorLink::source_gid() const {
  const bool is_up = attempt_ != nullptr && attempt_->is_up;
  return is_up ? attempt_->cm->id().source_gid().value_or(Gid{}) : Gid{};
}

InitiatorLink::~InitiatorLink() {
  disconnect();
  core::Environment& environment = host_.environment();
  const bool ended = environment.wait_until([this] { return ending_.empty(); },
                                            environment.now() + kLongestEnding);
  WEFT_ASSERT(ended, "every request of a QP in error completes");
  collect_work_.cancel_and_wait();
}

void InitiatorLink::connect(ByteSpan login_req) {
  disconnect();
  attempt_ = std::make_unique<Attempt>(*this);
  Attempt& attempt = *attempt_;
  const auto login = wire::parse<wire::SrpLoginReq>(login_req);
  WEFT_ASSERT(login, "a session's own login");
  if (target_.native) {
    attempt.login.assign(login_req.begin(), login_req.end());
  } else {
    const auto octets = wire::pack(wire::to_rdma_cm(*login));
    attempt.login.assign(octets.begin(), octets.end());
  }
  attempt.fail =
      std::make_unique<core::Work>(host_.environment(), core::WorkContext::UnboundWorkQueue, 0,
                                   [this, &attempt] { refuse(attempt, {}, attempt.failure); });
  if (const auto begun = begin(attempt); !begun) {
    attempt.failure = begun.error().reason;
    attempt.fail->queue();
  }
}

Result<void> InitiatorLink::begin_natively(Attempt& attempt) {
  auto cm = LoopCmId::create_native(
      host_.environment(), host_.cm(),
      [this, &attempt](const core::RdmaCmEvent& event) { handle_cm(attempt, event); });
  if (!cm) {
    return std::unexpected(cm.error());
  }
  attempt.cm = *std::move(cm);
  if (!target_.source_gid.is_zero()) {
    constexpr std::uint64_t kAnyPortNumber = ~std::uint64_t{0xFFFF};
    const core::NativeAddress source{.gid = target_.source_gid,
                                     .pkey = target_.native->pkey,
                                     .service_id = target_.native->service_id & kAnyPortNumber};
    if (const auto bound = attempt.cm->id().bind({.native = source}); !bound) {
      return fail(bound.error().code, "SGID {}: {}", text_of(target_.source_gid),
                  bound.error().reason);
    }
  }
  return attempt.cm->id().resolve_address({.native = target_.native}, kResolveTimeout);
}

Result<void> InitiatorLink::begin(Attempt& attempt) {
  if (target_.native) {
    return begin_natively(attempt);
  }
  const auto parsed = iscsi::parse_host_and_port(target_.address);
  if (!parsed) {
    return std::unexpected(parsed.error());
  }
  const auto ip = parse_ip_address(parsed->host);
  if (!ip) {
    return std::unexpected(ip.error());
  }
  auto cm = LoopCmId::create(
      host_.environment(), host_.cm(),
      [this, &attempt](const core::RdmaCmEvent& event) { handle_cm(attempt, event); });
  if (!cm) {
    return std::unexpected(cm.error());
  }
  attempt.cm = *std::move(cm);
  return attempt.cm->id().resolve_address({.address = *ip, .port = parsed->port}, kResolveTimeout);
}

/// By the device's fast registration, if it has any.
void InitiatorLink::prepare_registrations(Attempt& attempt) {
  const bool registers = host_.device().attributes().capabilities.has(
      core::DeviceCapability::MemoryManagementExtensions);
  if (!weft::srp::choose_mapping({.fast_registration = registers}, 1)) {
    return;
  }
  auto pool = weft::iser::RegistrationPool::create(device_.pd(),
                                                   {.scheme = weft::iser::RegistrationScheme::Fast,
                                                    .count = kRegistrations,
                                                    .max_bytes = kMostRegistered,
                                                    .protected_count = 0});
  if (pool) {
    attempt.registrations = *std::move(pool);
  } else {
    host_.environment().log(core::LogLevel::Warning,
                            fmt::format("no fast registration: {}", pool.error().reason));
  }
}

/// Address and route are known: a QP, and the REQ.
Result<void> InitiatorLink::go_on(Attempt& attempt) {
  if (attempt.cm->id().device() != &host_.device()) {
    return fail(ErrorCode::NetworkUnreachable, "{} is reached by another device than {}", where(),
                host_.device().name());
  }
  auto channel = weft::iser::Channel::create(device_.pd(),
                                             {.send_depth = kSendDepth,
                                              .receive_depth = kReceives,
                                              .signal_interval = kSignalInterval,
                                              .cq_lingers = rdma::kCqLingers,
                                              .caller = "srp"},
                                             attempt);
  if (!channel) {
    return std::unexpected(channel.error());
  }
  attempt.channel = *std::move(channel);
  prepare_registrations(attempt);
  if (auto used = attempt.cm->id().use_qp(attempt.channel->qp()); !used) {
    return used;
  }
  if (auto posted = attempt.channel->open_ring(kReceives, kReceiveBytes); !posted) {
    return posted;
  }
  verbs::ConnectionParameters parameters;
  parameters.qpn = attempt.channel->qp().number();
  parameters.responder_resources = 4;  // policy: READs of the target under way at once
  parameters.initiator_depth = 1;      // this end READs nothing
  parameters.flow_control = 1;
  parameters.retry_count = 7;
  parameters.rnr_retry_count = 7;
  parameters.private_data = attempt.login;
  return attempt.cm->id().connect(parameters);
}

void InitiatorLink::handle_cm(Attempt& attempt, const core::RdmaCmEvent& event) {
  using enum verbs::RdmaCmEventType;
  if (!attempt.is_wanted()) {
    return;
  }
  switch (event.type) {
    case AddressResolved:
      if (const auto begun = attempt.cm->id().resolve_route(kResolveTimeout); !begun) {
        refuse(attempt, {}, begun.error().reason);
      }
      break;
    case RouteResolved:
      if (const auto begun = go_on(attempt); !begun) {
        refuse(attempt, {}, begun.error().reason);
      }
      break;
    case Established: {
      const auto login = wire::parse<wire::SrpLoginRsp>(event.parameters.private_data);
      if (login && login->max_target_iu_length > kReceiveBytes) {
        refuse(attempt, {},
               fmt::format("the target sends units of {} octets; {} go",
                           login->max_target_iu_length, kReceiveBytes));
        break;
      }
      attempt.is_up = true;
      client_.handle_connected(event.parameters.private_data);
      break;
    }
    case Rejected: {
      if (event.status == kStaleConnection) {
        end(std::move(attempt_));
        client_.handle_stale("the target still has the connection of before (REJ 10)");
        break;
      }
      const bool by_target = core::is_consumer_reject(event);
      refuse(attempt, by_target ? ByteSpan{event.parameters.private_data} : ByteSpan{},
             by_target ? std::string{"the target refuses the login"}
                       : fmt::format("the connection is refused with reason {}", event.status));
      break;
    }
    case AddressError:
    case RouteError:
    case ConnectError:
    case Unreachable:
      refuse(attempt, {}, fmt::format("{} is not reached: {}", where(), core::name_of(event.type)));
      break;
    case Disconnected:
    case DeviceRemoval:
      lose(attempt, "the target has disconnected");
      break;
    default:
      break;  // of listeners, multicast, and of connections that have ended
  }
}

void InitiatorLink::refuse(Attempt& attempt, ByteSpan login_rej, const std::string& reason) {
  if (attempt.is_wanted()) {
    const std::vector<std::byte> said{login_rej.begin(), login_rej.end()};
    end(std::move(attempt_));
    client_.handle_refused(said, reason);
  }
}

void InitiatorLink::lose(Attempt& attempt, const std::string& reason) {
  if (attempt.is_wanted()) {
    client_.handle_lost(reason);  // which disconnects
    if (attempt_.get() == &attempt) {
      end(std::move(attempt_));
    }
  }
}

Result<void> InitiatorLink::post_send(ByteSpan unit) {
  if (attempt_ == nullptr || !attempt_->is_up) {
    return fail(ErrorCode::ShutDown, "there is no channel");
  }
  attempt_->waiting.push_back(attempt_->channel->make_send(unit));
  attempt_->post_waiting();
  return {};
}

/// The QP is in error when this returns, so that the target reaches nothing by it.
void InitiatorLink::disconnect() {
  if (attempt_ == nullptr) {
    return;
  }
  std::unique_ptr<Attempt> ended = std::move(attempt_);
  if (lingers_ && ended->is_up) {
    core::Environment& environment = host_.environment();
    environment.wait_until([&sends = ended->channel->sends()] { return sends.is_idle(); },
                           environment.now() + kLinger);
  }
  end(std::move(ended));
}

void InitiatorLink::end(std::unique_ptr<Attempt> attempt) {
  if (attempt->cm != nullptr) {
    static_cast<void>(attempt->cm->id().disconnect());  // refused: there is no connection
  }
  if (attempt->channel != nullptr) {
    attempt->channel->drain();
  } else {
    attempt->is_drained = true;
  }
  ending_.push_back(std::move(attempt));
  collect_work_.queue();
}

void InitiatorLink::collect() {
  std::erase_if(ending_, [](const auto& attempt) {
    if (!attempt->is_drained) {
      return false;
    }
    attempt->fail->cancel_and_wait();
    attempt->cm.reset();  // which may still look at the QP
    return true;
  });
  host_.environment().notify();
}

/// Under a key that is new each time, and one for all pieces; the work request that makes it known
/// goes before whatever is sent next (R-SRPI-6).
Result<Mapping> InitiatorLink::Attempt::register_memory(std::span<const LocalPiece> pieces) {
  std::vector<core::ScatterEntry> list;
  std::uint32_t bytes = 0;
  for (const LocalPiece& piece : pieces) {
    list.push_back({.address = piece.address, .length = piece.length});
    bytes += piece.length;
  }
  const auto made = registrations->map(list, true);
  if (!made) {
    return std::unexpected(made.error());
  }
  const std::uint64_t token = link.next_token_++;
  registered.emplace(token, *made);
  auto request = channel->sends().take();
  request->wr = weft::iser::RegistrationPool::show_request(*made, true);
  request->wr.access = request->wr.access | verbs::Access::RemoteRead;  // as ib_srp: both ways
  waiting.push_back(std::move(request));
  return Mapping{.segments = {{.address = made->address, .key = made->rkey, .length = bytes}},
                 .token = token};
}

/// The target reaches it no more once the work request is executed, and the region is free then.
void InitiatorLink::Attempt::hide(std::uint64_t token) {
  const auto found = registered.find(token);
  if (found == registered.end()) {
    return;
  }
  auto request = channel->sends().take();
  request->wr = weft::iser::RegistrationPool::hide_request(found->second);
  request->must_signal = true;
  request->done = [this, token](verbs::WcStatus status) {
    const auto hidden = registered.find(token);
    if (status == verbs::WcStatus::Success && hidden != registered.end()) {
      registrations->release(hidden->second);
      registered.erase(hidden);
    }
  };
  waiting.push_back(std::move(request));
  flush();
}

void InitiatorLink::unmap(std::uint64_t token) {
  tables_.erase(token);
  if (attempt_ != nullptr) {
    attempt_->hide(token);
  }
}

Result<Mapping> InitiatorLink::map(std::span<const LocalPiece> pieces) {
  if (attempt_ != nullptr && attempt_->registrations != nullptr) {
    if (auto registered = attempt_->register_memory(pieces)) {
      return registered;
    }  // else: pieces that the device does not show as one, or more commands than regions
  }
  return map_by_buffers(pieces);
}

Result<Mapping> InitiatorLink::map_by_buffers(std::span<const LocalPiece> pieces) {
  Mapping mapping;
  for (const LocalPiece& piece : pieces) {
    const auto key = device_.buffers().key_of(piece.address, piece.length);
    if (!key) {
      return std::unexpected(key.error());
    }
    mapping.segments.push_back({.address = piece.address, .key = *key, .length = piece.length});
  }
  return mapping;  // token 0: the buffer is the caller's
}

Result<Mapping> InitiatorLink::place_table(ByteSpan octets) {
  auto buffer = device_.buffers().take(octets.size());
  if (!buffer) {
    return std::unexpected(buffer.error());
  }
  copy_bytes((*buffer)->octets(), octets);
  const LocalPiece piece{.address = (*buffer)->address(),
                         .length = static_cast<std::uint32_t>(octets.size())};
  auto mapping = map_by_buffers({&piece, 1});
  if (mapping) {
    mapping->token = next_token_++;
    tables_.emplace(mapping->token, *std::move(buffer));
  }
  return mapping;
}

}  // namespace weft::programs::srp
