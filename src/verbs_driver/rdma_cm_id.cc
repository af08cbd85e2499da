#include "verbs_driver/rdma_cm_id.h"

#include <endian.h>
#include <infiniband/ib.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "core/qp.h"
#include "verbs_driver/translation.h"

namespace weft::verbs_driver {
namespace {

/// As the calls of librdmacm take addresses.
struct SocketAddress {
  explicit SocketAddress(const core::RdmaCmAddress& from) {
    if (from.native) {
      is_native = true;
      ib.sib_family = AF_IB;
      ib.sib_pkey = htobe16(from.native->pkey.value());
      ib.sib_sid = htobe64(from.native->service_id);
      ib.sib_sid_mask = ~std::uint64_t{0};
      std::memcpy(&ib.sib_addr, from.native->gid.octets().data(), Gid::kSize);
      return;
    }
    const std::span<const std::byte> octets = from.address.octets();
    if (from.address.is_v4()) {
      v4.sin_family = AF_INET;
      v4.sin_port = htobe16(from.port);
      std::memcpy(&v4.sin_addr, octets.data(), octets.size());
    } else {
      v6.sin6_family = AF_INET6;
      v6.sin6_port = htobe16(from.port);
      std::memcpy(&v6.sin6_addr, octets.data(), octets.size());
    }
    is_v4 = from.address.is_v4();
  }
  [[nodiscard]] sockaddr* generic() {
    void* const chosen = is_native ? static_cast<void*>(&ib)
                         : is_v4   ? static_cast<void*>(&v4)
                                   : static_cast<void*>(&v6);
    return static_cast<sockaddr*>(chosen);
  }

  bool is_native{};
  bool is_v4{};
  sockaddr_ib ib{};
  sockaddr_in v4{};
  sockaddr_in6 v6{};
};

[[nodiscard]] rdma_conn_param to_library(const verbs::ConnectionParameters& parameters,
                                         const core::Qp& qp) {
  rdma_conn_param made{};
  made.private_data = parameters.private_data.data();
  made.private_data_len = static_cast<std::uint8_t>(parameters.private_data.size());
  made.responder_resources = parameters.responder_resources;
  made.initiator_depth = parameters.initiator_depth;
  made.flow_control = parameters.flow_control;
  made.retry_count = parameters.retry_count;
  made.rnr_retry_count = parameters.rnr_retry_count;
  made.srq = qp.srq() != nullptr ? 1 : 0;
  made.qp_num = qp.number().value();
  return made;
}

/// Lengths of private data are told in eight bits; what fits a message librdmacm checks.
Result<void> check_private_data(ByteSpan data) {
  constexpr std::size_t kMost = 255;
  if (data.size() > kMost) {
    return fail(ErrorCode::InvalidArgument, "{} bytes of private data; no message has more than {}",
                data.size(), kMost);
  }
  return {};
}

/// None: it is not known yet.
[[nodiscard]] std::optional<Gid> told_gid(const ibv_gid& told) {
  std::array<std::byte, Gid::kSize> octets{};
  std::memcpy(octets.data(), &told, octets.size());
  const Gid gid{octets};
  return gid.is_zero() ? std::nullopt : std::optional{gid};
}

[[nodiscard]] int milliseconds_of(Duration timeout) {
  return static_cast<int>(std::clamp<std::int64_t>(timeout.milliseconds(), 1, 1'000'000));
}

}  // namespace

LiveRdmaCmId::~LiveRdmaCmId() {
  cm_.leave(*this);
  destroy_qp();
  cm_.library_.destroy_id(id_);  // ends the connection, whatever its state
}

void LiveRdmaCmId::handle(core::RdmaCmEvent& event, std::unique_ptr<LiveRdmaCmId> request) {
  if (request != nullptr) {
    const std::shared_ptr<IdEvents> of_request = request->events_;
    of_request->announce([&] { handler().handle_cm_event(*this, event, std::move(request)); });
    return;
  }
  if (event.type == verbs::RdmaCmEventType::ConnectResponse) {
    const auto established = establish();
    event.type =
        established ? verbs::RdmaCmEventType::Established : verbs::RdmaCmEventType::ConnectError;
  } else if (event.type == verbs::RdmaCmEventType::Disconnected) {
    fail_qp();
  }
  handler().handle_cm_event(*this, event, nullptr);
}

core::Device* LiveRdmaCmId::device() const {
  VerbsDevice* const found = id_->verbs != nullptr ? cm_.find_device(id_->verbs) : nullptr;
  return found != nullptr ? &found->device() : nullptr;
}

std::optional<core::RdmaCmAddress> LiveRdmaCmId::peer_address() const {
  const rdma_addr& told = id_->route.addr;
  core::RdmaCmAddress made;
  if (told.dst_addr.sa_family == AF_INET) {
    made.address = IpAddress::v4(be32toh(told.dst_sin.sin_addr.s_addr));
    made.port = be16toh(told.dst_sin.sin_port);
    return made;
  }
  if (told.dst_addr.sa_family == AF_INET6) {
    IpAddress::V6Octets octets{};
    std::memcpy(octets.data(), &told.dst_sin6.sin6_addr, octets.size());
    made.address = IpAddress{octets};
    made.port = be16toh(told.dst_sin6.sin6_port);
    return made;
  }
  return std::nullopt;
}

std::optional<Gid> LiveRdmaCmId::peer_gid() const {
  return told_gid(id_->route.addr.addr.ibaddr.dgid);
}

std::optional<Gid> LiveRdmaCmId::source_gid() const {
  return told_gid(id_->route.addr.addr.ibaddr.sgid);
}

Result<void> LiveRdmaCmId::bind(const core::RdmaCmAddress& address) {
  SocketAddress to{address};
  return check_call(cm_.library_.bind_addr(id_, to.generic()), "rdma_bind_addr");
}

Result<void> LiveRdmaCmId::listen(int backlog) {
  return check_call(cm_.library_.listen(id_, backlog), "rdma_listen");
}

std::uint16_t LiveRdmaCmId::source_port() const { return be16toh(cm_.library_.get_src_port(id_)); }

Result<void> LiveRdmaCmId::resolve_address(const core::RdmaCmAddress& destination,
                                           Duration timeout) {
  SocketAddress to{destination};
  return check_call(cm_.library_.resolve_addr(id_, nullptr, to.generic(), milliseconds_of(timeout)),
                    "rdma_resolve_addr");
}

Result<void> LiveRdmaCmId::resolve_route(Duration timeout) {
  return check_call(cm_.library_.resolve_route(id_, milliseconds_of(timeout)),
                    "rdma_resolve_route");
}

Result<void> LiveRdmaCmId::set_type_of_service(std::uint8_t type) {
  return check_call(
      cm_.library_.set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &type, sizeof type),
      "rdma_set_option");
}

Result<core::Qp*> LiveRdmaCmId::create_qp(core::Pd& pd, core::QpInit& init) {
  const std::lock_guard lock{qp_mutex_};
  if (qp_ != nullptr || &pd.device() != device()) {
    return fail(ErrorCode::InvalidArgument, "{}",
                qp_ != nullptr ? "the id has a QP" : "the PD is of another device than the id");
  }
  auto made = core::create_qp(pd, init);
  if (!made) {
    return made;
  }
  if (const auto adopted = adopt(**made); !adopted) {
    static_cast<void>(core::destroy_qp(**made));
    return std::unexpected(adopted.error());
  }
  owns_qp_ = true;
  return qp_;
}

Result<void> LiveRdmaCmId::use_qp(core::Qp& qp) {
  const std::lock_guard lock{qp_mutex_};
  if (qp_ != nullptr || &qp.device() != device()) {
    return fail(ErrorCode::InvalidArgument, "{}",
                qp_ != nullptr ? "the id has a QP" : "the QP is of another device than the id");
  }
  return adopt(qp);
}

Result<void> LiveRdmaCmId::adopt(core::Qp& qp) {
  qp_ = &qp;
  auto applied = apply(verbs::QpState::Init);
  if (!applied) {
    qp_ = nullptr;
  }
  return applied;
}

core::Qp* LiveRdmaCmId::qp() const {
  const std::lock_guard lock{qp_mutex_};
  return qp_;
}

void LiveRdmaCmId::destroy_qp() {
  core::Qp* qp = nullptr;
  {
    const std::lock_guard lock{qp_mutex_};
    qp = std::exchange(qp_, nullptr);
    if (!std::exchange(owns_qp_, false)) {
      return;
    }
  }
  if (qp != nullptr) {  // not under the lock: a handler that is waited for may call us
    static_cast<void>(core::destroy_qp(*qp));
  }
}

Result<void> LiveRdmaCmId::apply(verbs::QpState state) {
  ibv_qp_attr attributes{};
  attributes.qp_state = static_cast<ibv_qp_state>(state);
  int mask = 0;
  if (auto asked =
          check_call(cm_.library_.init_qp_attr(id_, &attributes, &mask), "rdma_init_qp_attr");
      !asked) {
    return asked;
  }
  if (state == verbs::QpState::Rtr && responder_resources_ != RDMA_MAX_RESP_RES) {
    attributes.max_dest_rd_atomic = responder_resources_;
  }
  if (state == verbs::QpState::Rts && initiator_depth_ != RDMA_MAX_INIT_DEPTH) {
    attributes.max_rd_atomic = initiator_depth_;
  }
  core::QpModify modify;
  modify.mask = verbs::QpAttributeMask::from_bits(static_cast<std::uint32_t>(mask));
  modify.attributes = attributes_of(attributes);
  return core::modify_qp(*qp_, modify);
}

Result<void> LiveRdmaCmId::make_ready() {
  // INIT once more: what peers may do follows from the responder resources, not known before.
  if (auto initialized = apply(verbs::QpState::Init); !initialized) {
    return initialized;
  }
  if (auto receives = apply(verbs::QpState::Rtr); !receives) {
    return receives;
  }
  return apply(verbs::QpState::Rts);
}

Result<void> LiveRdmaCmId::connect(const verbs::ConnectionParameters& parameters) {
  const std::lock_guard lock{qp_mutex_};
  if (qp_ == nullptr) {
    return fail(ErrorCode::InvalidArgument, "an id connects with its QP: create_qp() comes first");
  }
  if (auto fits = check_private_data(parameters.private_data); !fits) {
    return fits;
  }
  rdma_conn_param asked = to_library(parameters, *qp_);
  responder_resources_ = parameters.responder_resources;
  initiator_depth_ = parameters.initiator_depth;
  return check_call(cm_.library_.connect(id_, &asked), "rdma_connect");
}

Result<void> LiveRdmaCmId::accept(const verbs::ConnectionParameters& parameters) {
  const std::lock_guard lock{qp_mutex_};
  if (qp_ == nullptr) {
    return fail(ErrorCode::InvalidArgument, "an id accepts with its QP: create_qp() comes first");
  }
  if (auto fits = check_private_data(parameters.private_data); !fits) {
    return fits;
  }
  rdma_conn_param asked = to_library(parameters, *qp_);
  responder_resources_ = parameters.responder_resources;
  initiator_depth_ = parameters.initiator_depth;
  if (auto ready = make_ready(); !ready) {
    return ready;
  }
  return check_call(cm_.library_.accept(id_, &asked), "rdma_accept");
}

Result<void> LiveRdmaCmId::reject(ByteSpan private_data) {
  if (auto fits = check_private_data(private_data); !fits) {
    return fits;
  }
  return check_call(
      cm_.library_.reject(id_, private_data.data(), static_cast<std::uint8_t>(private_data.size())),
      "rdma_reject");
}

Result<void> LiveRdmaCmId::disconnect() {
  fail_qp();
  return check_call(cm_.library_.disconnect(id_), "rdma_disconnect");
}

Result<void> LiveRdmaCmId::notify(verbs::AsyncEventType event) {
  return check_call(cm_.library_.notify(id_, static_cast<ibv_event_type>(event)), "rdma_notify");
}

Result<void> LiveRdmaCmId::establish() {
  const std::lock_guard lock{qp_mutex_};
  if (qp_ == nullptr) {
    return fail(ErrorCode::ShutDown, "the QP was destroyed before its connection was there");
  }
  if (auto ready = make_ready(); !ready) {
    return ready;
  }
  return check_call(cm_.library_.establish(id_), "rdma_establish");
}

void LiveRdmaCmId::fail_qp() {
  const std::lock_guard lock{qp_mutex_};
  if (qp_ != nullptr) {
    core::QpModify modify;
    modify.mask = verbs::QpAttribute::State;
    modify.attributes.state = verbs::QpState::Err;
    static_cast<void>(core::modify_qp(*qp_, modify));
  }
}

}  // namespace weft::verbs_driver
