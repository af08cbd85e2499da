#include "programs/net/connected_port.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <endian.h>
#include <fcntl.h>
#include <infiniband/ib.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "programs/net/tun.h"

namespace weft::programs::net {
namespace {

// Policy.
constexpr std::uint32_t kReceives = 256;
constexpr std::uint32_t kSends = 128;
constexpr std::size_t kSendsOfConnection = 32;  // so that a peer that stops leaves room for others
constexpr std::size_t kWaitingOfConnection = 256;  // 16 MiB: more than a TCP window
constexpr int kBatch = 32;
constexpr int kBacklog = 64;
constexpr int kResolveMs = 2'000;
constexpr std::uint8_t kRetries = 7;    // of RNR NAKs it means: always (IBTA vol 1 Table 91)
constexpr std::uint8_t kRnrTimer = 14;  // 1.28 ms (IBTA vol 1 Table 45)

constexpr std::size_t kSlotBytes = 17 * 4'096;
static_assert(kSlotBytes >= ipoib::kMaxConnectedMtu + ipoib::kHeaderBytes &&
              kSlotBytes >= Tun::kLongestPacket + ipoib::kHeaderBytes);
constexpr std::size_t kMemoryBytes = (kReceives + kSends) * kSlotBytes;

[[nodiscard]] std::unexpected<Error> refused(const char* call) {
  return fail(ErrorCode::Io, "connected mode: {}: {}", call, std::strerror(errno));
}

[[nodiscard]] sockaddr_ib address_of(std::uint64_t service_id) {
  sockaddr_ib address{};
  address.sib_family = AF_IB;
  address.sib_sid = htobe64(service_id);
  address.sib_sid_mask = ~std::uint64_t{0};
  return address;
}

[[nodiscard]] sockaddr* general(sockaddr_ib& address) {
  return static_cast<sockaddr*>(static_cast<void*>(&address));
}

void make_non_blocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

struct TypeOfFlag {
  wire::IpoibFlag flag;
  ibv_qp_type type;
};
constexpr std::array kTypes{
    TypeOfFlag{wire::IpoibFlag::ReliableConnected,   IBV_QPT_RC},
    TypeOfFlag{wire::IpoibFlag::UnreliableConnected, IBV_QPT_UC},
};

/// Of Weft's libibverbs (compat/ibverbs/device.cc). Null: it is another, whose captures see what an
/// adapter sends.
using HasCaptures = int(ibv_context*);
[[nodiscard]] HasCaptures* has_captures_function() {
  static auto* const found = std::bit_cast<HasCaptures*>(dlsym(RTLD_DEFAULT, "weft_has_captures"));
  return found;
}

[[nodiscard]] ibv_qp_type type_of(const ipoib::ConnectionAction& connect) {
  return connect.type == verbs::QpType::Uc ? IBV_QPT_UC : IBV_QPT_RC;
}

}  // namespace

Result<std::unique_ptr<ConnectedPort>> ConnectedPort::open(const Options& options, Sink sink) {
  std::unique_ptr<ConnectedPort> port{
      new ConnectedPort{std::move(sink), options.partial_checksums}
  };
  if (auto done = port->set_up(options.device); !done) {
    return std::unexpected(std::move(done.error()));
  }
  for (const auto& [flag, type] : kTypes) {
    const bool is_offered = ipoib::flags_of(options.mode).has(flag);
    if (auto done = is_offered ? port->listen(options.ud_qpn, type) : Result<void>{}; !done) {
      return std::unexpected(std::move(done.error()));
    }
  }
  return port;
}

Result<void> ConnectedPort::set_up(const std::string& device) {
  channel_ = rdma_create_event_channel();
  if (channel_ == nullptr) {
    return refused("rdma_create_event_channel");
  }
  make_non_blocking(channel_->fd);
  int count = 0;
  ibv_context** const devices = rdma_get_devices(&count);
  for (int i = 0; devices != nullptr && i < count; ++i) {
    if (device == ibv_get_device_name(devices[i]->device)) {
      device_ = devices[i];
    }
  }
  rdma_free_devices(devices);
  if (device_ == nullptr) {
    return fail(ErrorCode::NoSuchDevice, "connected mode: librdmacm has no device {}", device);
  }
  pd_ = ibv_alloc_pd(device_);
  completions_ = pd_ != nullptr ? ibv_create_comp_channel(device_) : nullptr;
  cq_ = completions_ != nullptr
            ? ibv_create_cq(device_, kReceives + kSends, nullptr, completions_, 0)
            : nullptr;
  ibv_srq_init_attr srq{};
  srq.attr = {.max_wr = kReceives, .max_sge = 1, .srq_limit = 0};
  srq_ = cq_ != nullptr ? ibv_create_srq(pd_, &srq) : nullptr;
  // Pages come when they are used, so that interfaces without connections cost nothing.
  void* const memory =
      mmap(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memory_ = memory != MAP_FAILED ? static_cast<std::byte*>(memory) : nullptr;
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE;  // the macro compares it with another enumeration
  mr_ = srq_ != nullptr && memory_ != nullptr ? ibv_reg_mr(pd_, memory_, kMemoryBytes, kAccess)
                                              : nullptr;
  if (mr_ == nullptr) {
    return refused("verbs objects");
  }
  make_non_blocking(completions_->fd);
  for (std::uint32_t slot = 0; slot < kReceives; ++slot) {
    if (!post_receive(slot)) {
      return refused("ibv_post_srq_recv");
    }
  }
  for (std::uint32_t slot = kReceives; slot < kReceives + kSends; ++slot) {
    free_.push_back(slot);
  }
  return ibv_req_notify_cq(cq_, 0) == 0 ? Result<void>{} : refused("ibv_req_notify_cq");
}

/// Bound to that service ID. An id is of RC in this port space, unless it is made as an endpoint
/// (rdma_create_ep(3)); one that listens is bound at once, and what connects may be bound, too.
rdma_cm_id* ConnectedPort::make_id(std::uint64_t service_id, ibv_qp_type type) {
  sockaddr_ib address = address_of(service_id);
  rdma_addrinfo where{};
  where.ai_flags = RAI_PASSIVE;
  where.ai_family = AF_IB;
  where.ai_qp_type = type;
  where.ai_port_space = RDMA_PS_IB;
  where.ai_src_len = sizeof address;
  where.ai_src_addr = general(address);
  rdma_cm_id* id = nullptr;
  if (rdma_create_ep(&id, &where, nullptr, nullptr) != 0) {
    return nullptr;
  }
  if (rdma_migrate_id(id, channel_) != 0) {
    rdma_destroy_id(id);
    return nullptr;
  }
  return id;
}

Result<void> ConnectedPort::listen(Qpn ud_qpn, ibv_qp_type type) {
  const std::uint64_t service_id = ipoib::service_id_of(ud_qpn);
  rdma_cm_id* const listener = make_id(service_id, type);
  if (listener == nullptr) {
    return refused("rdma_create_ep");
  }
  listeners_.push_back(listener);
  sockaddr_ib bound{};
  std::memcpy(&bound, rdma_get_local_addr(listener), sizeof bound);
  if (bound.sib_sid !=
      htobe64(service_id)) {  // its low half is 0, which stands for any port number
    return fail(ErrorCode::AddressNotAvailable,
                "connected mode: QPN {:#x} has no service ID of RDMA-CM's; start it again",
                ud_qpn.value());
  }
  return rdma_listen(listener, kBacklog) == 0 ? Result<void>{} : refused("rdma_listen");
}

ConnectedPort::~ConnectedPort() {
  for (const auto& [id, connection] : connections_) {
    rdma_disconnect(id);
    if (id->qp != nullptr) {
      rdma_destroy_qp(id);
    }
    rdma_destroy_id(id);
  }
  for (rdma_cm_id* const listener : listeners_) {
    rdma_destroy_id(listener);
  }
  if (mr_ != nullptr) {
    ibv_dereg_mr(mr_);
  }
  if (memory_ != nullptr) {
    munmap(memory_, kMemoryBytes);
  }
  if (srq_ != nullptr) {
    ibv_destroy_srq(srq_);
  }
  if (cq_ != nullptr) {
    ibv_destroy_cq(cq_);
  }
  if (completions_ != nullptr) {
    ibv_destroy_comp_channel(completions_);
  }
  if (pd_ != nullptr) {
    ibv_dealloc_pd(pd_);
  }
  if (channel_ != nullptr) {
    rdma_destroy_event_channel(channel_);
  }
}

std::byte* ConnectedPort::slot_at(std::uint32_t slot) const { return memory_ + slot * kSlotBytes; }

bool ConnectedPort::post_receive(std::uint32_t slot) {
  ibv_sge piece{
      .addr = std::bit_cast<std::uint64_t>(slot_at(slot)), .length = kSlotBytes, .lkey = mr_->lkey};
  ibv_recv_wr request{};
  request.wr_id = slot;
  request.sg_list = &piece;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_srq_recv(srq_, &request, &bad) == 0;
}

bool ConnectedPort::make_qp(rdma_cm_id* id) {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq_;
  init.srq = srq_;
  init.cap = {.max_send_wr = static_cast<std::uint32_t>(kSendsOfConnection),
              .max_recv_wr = 0,
              .max_send_sge = 1,
              .max_recv_sge = 0,
              .max_inline_data = 0};
  init.qp_type = id->qp_type;
  return rdma_create_qp(id, pd_, &init) == 0;
}

void ConnectedPort::perform(ipoib::ConnectionAction action, PKey pkey) {
  using Kind = ipoib::ConnectionAction::Kind;
  if (action.kind == Kind::Connect) {
    if (!connect(action, pkey)) {
      sink_.refused(action.id);
    }
    return;
  }
  const auto found = own_.find(action.id);
  if (found == own_.end()) {
    counters_.dropped += action.kind == Kind::Send ? 1 : 0;
    return;
  }
  if (action.kind == Kind::Disconnect) {
    return end(*found->second, false);
  }
  send(*found->second, std::move(action.packet));
}

bool ConnectedPort::connect(const ipoib::ConnectionAction& action, PKey pkey) {
  // With a port number of its own in place of the last 16 bits, as RDMA-CM gives who is not bound.
  rdma_cm_id* const id = make_id(action.service_id & ~std::uint64_t{0xFFFF}, type_of(action));
  if (id == nullptr) {
    return false;
  }
  sockaddr_ib to = address_of(action.service_id);
  to.sib_pkey = htons(pkey.value());
  std::memcpy(&to.sib_addr, action.neighbor.gid.octets().data(), Gid::kSize);
  if (rdma_resolve_addr(id, nullptr, general(to), kResolveMs) != 0) {
    rdma_destroy_id(id);
    return false;
  }
  auto made = std::make_unique<Connection>();
  made->number = action.id;
  made->is_own = true;
  made->id = id;
  made->data = action.data;
  own_.emplace(action.id, made.get());
  connections_.emplace(id, std::move(made));
  return true;
}

bool ConnectedPort::go_on(Connection& connection, rdma_cm_event_type after) {
  if (after == RDMA_CM_EVENT_ADDR_RESOLVED) {
    return rdma_resolve_route(connection.id, kResolveMs) == 0;
  }
  const auto data = ipoib::private_data_of(connection.data, partial_checksums_);
  rdma_conn_param parameters{};
  parameters.private_data = data.data();
  parameters.private_data_len = static_cast<std::uint8_t>(data.size());
  parameters.retry_count = kRetries;
  parameters.rnr_retry_count = kRetries;
  return connection.id->verbs == device_ && make_qp(connection.id) &&
         rdma_connect(connection.id, &parameters) == 0;
}

void ConnectedPort::take_events() {
  for (rdma_cm_event* event = nullptr; rdma_get_cm_event(channel_, &event) == 0;) {
    Event copy{.type = event->event, .id = event->id, .private_data = {}};
    if (event->param.conn.private_data != nullptr) {
      const std::span octets{static_cast<const std::byte*>(event->param.conn.private_data),
                             event->param.conn.private_data_len};
      copy.private_data.assign(octets.begin(), octets.end());
    }
    rdma_ack_cm_event(event);  // first: an id is destroyed without open events
    handle(copy);
  }
}

void ConnectedPort::handle(const Event& event) {
  if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
    return take_request(event);
  }
  const auto found = connections_.find(event.id);
  if (found == connections_.end() || found->second->is_ending) {
    return;
  }
  Connection& connection = *found->second;
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      if (!go_on(connection, event.type)) {
        end(connection, true);
      }
      return;
    case RDMA_CM_EVENT_ESTABLISHED:
      connection.is_established = true;
      if (connection.is_own) {
        sink_.established(connection.number, event.private_data);
      }
      return;
    case RDMA_CM_EVENT_ADDR_CHANGE:
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      return;
    default:  // whatever else there is, ends it
      return end(connection, true);
  }
}

void ConnectedPort::take_request(const Event& event) {
  const ipoib::ConnectionId number = ++last_of_peers_;
  const auto data = event.id->verbs == device_
                        ? sink_.accept(number, event.private_data)
                        : fail(ErrorCode::NoSuchDevice, "of another adapter");
  if (!data) {
    rdma_reject(event.id, nullptr, 0);
    rdma_destroy_id(event.id);
    return;
  }
  const auto of_peer = wire::parse<ipoib::ConnectionData>(event.private_data);
  if (of_peer) {
    end_earlier(event.id->route.addr.addr.ibaddr.dgid, of_peer->qpn);
  }
  const auto octets = ipoib::private_data_of(*data, partial_checksums_);
  rdma_conn_param parameters{};
  parameters.private_data = octets.data();
  parameters.private_data_len = static_cast<std::uint8_t>(octets.size());
  parameters.rnr_retry_count = kRetries;
  if (!make_qp(event.id) || rdma_accept(event.id, &parameters) != 0) {
    sink_.closed(number);
    rdma_destroy_id(event.id);
    return;
  }
  if (event.id->qp_type ==
      IBV_QPT_RC) {  // UC has no RNR NAK. RDMA-CM leaves 655 ms, the longest of all
    ibv_qp_attr attributes{};
    attributes.min_rnr_timer = kRnrTimer;
    ibv_modify_qp(event.id->qp, &attributes, IBV_QP_MIN_RNR_TIMER);
  }
  auto made = std::make_unique<Connection>();
  made->number = number;
  made->id = event.id;
  made->data = of_peer.value_or(ipoib::ConnectionData{});
  of_peers_.emplace(event.id->qp->qp_num, number);
  connections_.emplace(event.id, std::move(made));
}

/// A peer connects anew when it has lost the connection before, whose DREQ may have been lost, too.
void ConnectedPort::end_earlier(const ibv_gid& peer, Qpn ud_qpn) {
  for (const auto& [id, connection] : connections_) {
    const auto& known = id->route.addr.addr.ibaddr.dgid;
    if (!connection->is_own && connection->data.qpn == ud_qpn &&
        std::memcmp(known.raw, peer.raw, sizeof known.raw) == 0) {
      end(*connection, false);
    }
  }
}

bool ConnectedPort::knows_captures() { return has_captures_function() != nullptr; }

bool ConnectedPort::may_send_partial_checksums() const {
  return partial_checksums_ && has_captures_function()(device_) == 0;
}

bool ConnectedPort::may_post(const Connection& connection) const {
  return connection.waiting.empty() && connection.under_way < kSendsOfConnection && has_room() &&
         !connection.is_ending;
}

MutableByteSpan ConnectedPort::lend(MutableByteSpan otherwise) {
  if (free_.size() < 2) {  // so that there is room for another packet, too
    return otherwise;
  }
  lent_ = free_.back();
  free_.pop_back();
  return {slot_at(*lent_) + ipoib::kHeaderBytes, kSlotBytes - ipoib::kHeaderBytes};
}

void ConnectedPort::give_back() {
  if (lent_) {
    free_.push_back(*std::exchange(lent_, std::nullopt));
  }
}

bool ConnectedPort::send_at_once(ipoib::ConnectionId id, ByteSpan header, ByteSpan packet) {
  const auto found = own_.find(id);
  if (found == own_.end() || !may_post(*found->second)) {
    return false;
  }
  post(*found->second, header, packet);
  return true;
}

void ConnectedPort::send(Connection& connection, ipoib::Packet packet) {
  if (may_post(connection)) {
    return post(connection, {}, packet);
  }
  if (connection.is_ending || connection.waiting.size() >= kWaitingOfConnection) {
    ++counters_.dropped;
    return;
  }
  lacks_room_ = lacks_room_ || !has_room();
  connection.waiting.push_back(std::move(packet));
}

void ConnectedPort::post_waiting(Connection& connection) {
  while (!connection.waiting.empty() && has_room() && connection.under_way < kSendsOfConnection) {
    post(connection, {}, connection.waiting.front());
    connection.waiting.pop_front();
  }
}

/// A connection that found no slot may have none under way, whose completion would be its turn.
void ConnectedPort::post_what_lacked_room() {
  if (!lacks_room_ || !has_room()) {
    return;
  }
  for (const auto& [id, connection] : connections_) {
    post_waiting(*connection);
  }
  lacks_room_ = !has_room();
}

void ConnectedPort::post(Connection& connection, ByteSpan header, ByteSpan packet) {
  const std::size_t bytes = header.size() + packet.size();
  if (bytes > kSlotBytes) {
    ++counters_.dropped;
    return;
  }
  const bool is_in_place = lent_ && slot_at(*lent_) + header.size() == packet.data();
  const std::uint32_t slot = is_in_place ? *lent_ : free_.back();
  const MutableByteSpan place{slot_at(slot), kSlotBytes};
  copy_bytes(place, header);
  if (!is_in_place) {
    copy_bytes(place.subspan(header.size()), packet);
  }
  ibv_sge piece{.addr = std::bit_cast<std::uint64_t>(slot_at(slot)),
                .length = static_cast<std::uint32_t>(bytes),
                .lkey = mr_->lkey};
  ibv_send_wr request{};
  request.wr_id = slot;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(connection.id->qp, &request, &bad) != 0) {
    ++counters_.dropped;
    return;
  }
  if (is_in_place) {
    lent_.reset();
  } else {
    free_.pop_back();
  }
  using_.emplace(slot, &connection);
  ++connection.under_way;
}

bool ConnectedPort::handle_completions(bool has_event) {
  ibv_cq* of = nullptr;
  void* context = nullptr;
  if (has_event && ibv_get_cq_event(completions_, &of, &context) == 0) {
    ibv_ack_cq_events(of, 1);
    static_cast<void>(ibv_req_notify_cq(cq_, 0));  // before the poll, as of the UD QP's CQ
  }
  std::array<ibv_wc, kBatch> completions{};
  const int count = ibv_poll_cq(cq_, kBatch, completions.data());
  for (const ibv_wc& completion :
       std::span{completions}.first(static_cast<std::size_t>(std::max(count, 0)))) {
    const auto slot = static_cast<std::uint32_t>(completion.wr_id);
    if (slot >= kReceives) {
      sent(completion);
      continue;
    }
    if (completion.status == IBV_WC_SUCCESS && completion.byte_len <= kSlotBytes) {
      const auto from = of_peers_.find(completion.qp_num);
      sink_.receive(from == of_peers_.end() ? ipoib::ConnectionId{} : from->second,
                    {slot_at(slot), completion.byte_len});
    }
    static_cast<void>(post_receive(slot));
  }
  if (count < kBatch) {
    destroy_ended();
  }
  post_what_lacked_room();
  return count == kBatch;
}

void ConnectedPort::sent(const ibv_wc& completion) {
  const auto slot = static_cast<std::uint32_t>(completion.wr_id);
  const auto found = using_.find(slot);
  if (found == using_.end()) {
    return;
  }
  Connection& connection = *found->second;
  using_.erase(found);
  free_.push_back(slot);
  --connection.under_way;
  if (completion.status != IBV_WC_SUCCESS) {
    ++counters_.failed;
    return end(connection, true);
  }
  post_waiting(connection);
}

/// The QP goes to error; its id is destroyed when what that flushes is taken, so that no slot is
/// lost.
void ConnectedPort::end(Connection& connection, bool is_told) {
  if (std::exchange(connection.is_ending, true)) {
    return;
  }
  has_ended_ = true;
  counters_.dropped += connection.waiting.size();
  connection.waiting.clear();
  rdma_disconnect(connection.id);
  if (!connection.is_own) {
    return sink_.closed(connection.number);
  }
  own_.erase(connection.number);
  if (is_told) {
    (connection.is_established ? sink_.lost : sink_.refused)(connection.number);
  }
}

void ConnectedPort::destroy_ended() {
  if (!std::exchange(has_ended_, false)) {
    return;
  }
  for (auto one = connections_.begin(); one != connections_.end();) {
    const auto current = one++;
    Connection& connection = *current->second;
    if (!connection.is_ending) {
      continue;
    }
    if (current->first->qp != nullptr) {
      of_peers_.erase(current->first->qp->qp_num);
      rdma_destroy_qp(current->first);
    }
    for (auto slot = using_.begin(); slot != using_.end();) {
      const auto used = slot++;
      if (used->second == &connection) {
        free_.push_back(used->first);
        using_.erase(used);
      }
    }
    rdma_destroy_id(current->first);
    connections_.erase(current);
  }
}

}  // namespace weft::programs::net
