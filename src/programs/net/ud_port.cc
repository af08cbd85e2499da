#include "programs/net/ud_port.h"

#include <arpa/inet.h>
#include <fcntl.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "verbs/mtu.h"
#include "wire/grh.h"

namespace weft::programs::net {
namespace {

// Policy. What has no place to be received into is lost, and nobody slows the sender down: a TCP
// window of 3 MiB, the most that Linux offers unless told otherwise, has to fit.
constexpr std::uint32_t kReceives = 2'048;
constexpr std::uint32_t kSends = 256;
constexpr int kBatch = 64;  // two of the longest packets that the host takes as one
constexpr std::size_t kMostHandles = 1'024;

constexpr std::size_t kGrhBytes = 40;  // before each received packet (IBTA vol 1 §11.4.1.2)
constexpr std::size_t kSlotBytes = kGrhBytes + verbs::bytes(verbs::Mtu::Mtu4096);
/// What the broadcast group has where nobody said otherwise (RFC 4391 §4.1 leaves it to the group).
constexpr QKey kUsualQKey{0x0B1B};

[[nodiscard]] std::unexpected<Error> refused(const char* call, int error) {
  return fail(ErrorCode::NoSuchDevice, "{}: {}", call, std::strerror(error));
}

[[nodiscard]] ibv_gid raw(const Gid& gid) {
  ibv_gid out{};
  std::memcpy(out.raw, gid.octets().data(), Gid::kSize);
  return out;
}

}  // namespace

Result<std::unique_ptr<UdPort>> UdPort::open(std::uint32_t port_of_host,
                                             std::optional<PKey> partition) {
  std::unique_ptr<UdPort> port{new UdPort};
  auto done = port->open_device(port_of_host);
  if (done) {
    done = port->set_up(partition);
  }
  if (!done) {
    return std::unexpected(std::move(done.error()));
  }
  return port;
}

Result<void> UdPort::open_device(std::uint32_t port_of_host) {
  int count = 0;
  ibv_device** const devices = ibv_get_device_list(&count);
  if (devices == nullptr || count == 0) {
    return fail(ErrorCode::NoSuchDevice,
                "no RDMA device: run it on a host of a fabric, by `weft net up HOST`");
  }
  std::uint32_t before = 0;  // ports of the devices before
  for (int i = 0; i < count && context_ == nullptr; ++i) {
    ibv_context* const opened = ibv_open_device(devices[i]);
    ibv_device_attr known{};
    if (opened == nullptr || ibv_query_device(opened, &known) != 0) {
      ibv_free_device_list(devices);
      return refused("ibv_open_device", errno);
    }
    if (port_of_host < before + known.phys_port_cnt) {
      context_ = opened;
      port_ = static_cast<std::uint8_t>(port_of_host - before + 1);
      break;
    }
    before += known.phys_port_cnt;
    ibv_close_device(opened);
  }
  ibv_free_device_list(devices);
  return context_ != nullptr ? Result<void>{}
                             : fail(ErrorCode::NoSuchDevice, "the host has no port {}: it has {}",
                                    port_of_host + 1, before);
}

Result<void> UdPort::set_up(std::optional<PKey> partition) {
  if (partition) {
    const auto index = find_pkey(*context_, port_, *partition);
    if (!index) {
      return std::unexpected(index.error());
    }
    pkey_index_ = *index;
  }
  fcntl(context_->async_fd, F_SETFL, fcntl(context_->async_fd, F_GETFL) | O_NONBLOCK);
  pd_ = ibv_alloc_pd(context_);
  channel_ = pd_ != nullptr ? ibv_create_comp_channel(context_) : nullptr;
  cq_ = channel_ != nullptr ? ibv_create_cq(context_, kReceives + kSends, nullptr, channel_, 0)
                            : nullptr;
  memory_.resize((kReceives + kSends) * kSlotBytes);
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE;  // the macro compares it with another enumeration
  mr_ = cq_ != nullptr ? ibv_reg_mr(pd_, memory_.data(), memory_.size(), kAccess) : nullptr;
  if (mr_ == nullptr) {
    return refused("verbs objects", errno);
  }
  fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  return bring_up_qp();
}

Result<void> UdPort::bring_up_qp() {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq_;
  init.cap = {.max_send_wr = kSends,
              .max_recv_wr = kReceives,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  init.qp_type = IBV_QPT_UD;
  qp_ = ibv_create_qp(pd_, &init);
  if (qp_ == nullptr) {
    return refused("ibv_create_qp", errno);
  }
  qkey_ = kUsualQKey;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = pkey_index_;
  attributes.port_num = port_;
  attributes.qkey = qkey_.value();
  if (const int error = ibv_modify_qp(
          qp_, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)) {
    return refused("the UD QP to Init", error);
  }
  for (std::uint32_t slot = 0; slot < kReceives; ++slot) {
    if (!post_receive(slot)) {
      return refused("ibv_post_recv", errno);
    }
  }
  for (std::uint32_t slot = kReceives; slot < kReceives + kSends; ++slot) {
    free_.push_back(slot);
  }
  attributes.qp_state = IBV_QPS_RTR;
  if (const int error = ibv_modify_qp(qp_, &attributes, IBV_QP_STATE)) {
    return refused("the UD QP to RTR", error);
  }
  attributes.qp_state = IBV_QPS_RTS;
  if (const int error = ibv_modify_qp(qp_, &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN)) {
    return refused("the UD QP to RTS", error);
  }
  if (const int error = ibv_req_notify_cq(cq_, 0)) {
    return refused("ibv_req_notify_cq", error);
  }
  return {};
}

UdPort::~UdPort() {
  static_cast<void>(set_attachments({}));
  if (qp_ != nullptr) {
    ibv_destroy_qp(qp_);
  }
  for (const auto& [key, handle] : handles_) {
    ibv_destroy_ah(handle);
  }
  if (mr_ != nullptr) {
    ibv_dereg_mr(mr_);
  }
  if (cq_ != nullptr) {
    ibv_destroy_cq(cq_);
  }
  if (channel_ != nullptr) {
    ibv_destroy_comp_channel(channel_);
  }
  if (pd_ != nullptr) {
    ibv_dealloc_pd(pd_);
  }
  if (context_ != nullptr) {
    ibv_close_device(context_);
  }
}

std::byte* UdPort::slot_at(std::uint32_t slot) { return memory_.data() + slot * kSlotBytes; }

bool UdPort::post_receive(std::uint32_t slot) {
  ibv_sge piece{
      .addr = std::bit_cast<std::uint64_t>(slot_at(slot)), .length = kSlotBytes, .lkey = mr_->lkey};
  ibv_recv_wr request{};
  request.wr_id = slot;
  request.sg_list = &piece;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(qp_, &request, &bad) == 0;
}

Result<sa::LocalPort> UdPort::attributes() {
  auto port = port_attributes(*context_, port_, pkey_index_);
  if (port) {
    lid_ = port->lid;
    pkeys_ = port->pkeys;
  }
  return port;
}

std::optional<PKey> UdPort::first_pkey() const {
  const auto port = port_attributes(*context_, port_);
  return port && !port->pkeys.empty() ? std::optional{port->pkeys.front()} : std::nullopt;
}

Result<void> UdPort::set_qkey(QKey qkey) {
  if (qkey == qkey_) {
    return {};
  }
  ibv_qp_attr attributes{};
  attributes.qkey = qkey.value();
  if (const int error = ibv_modify_qp(qp_, &attributes, IBV_QP_QKEY)) {
    return refused("the UD QP's Q_Key", error);
  }
  qkey_ = qkey;
  return {};
}

Result<void> UdPort::set_attachments(const std::map<Gid, Lid>& wanted) {
  if (wanted == attached_) {
    return {};
  }
  for (auto at = attached_.begin(); at != attached_.end();) {
    const auto found = wanted.find(at->first);
    if (found != wanted.end() && found->second == at->second) {
      ++at;
      continue;
    }
    const ibv_gid gid = raw(at->first);
    ibv_detach_mcast(qp_, &gid, static_cast<std::uint16_t>(at->second.value()));
    at = attached_.erase(at);
  }
  for (const auto& [mgid, mlid] : wanted) {
    if (attached_.contains(mgid)) {
      continue;
    }
    const ibv_gid gid = raw(mgid);
    if (const int error = ibv_attach_mcast(qp_, &gid, static_cast<std::uint16_t>(mlid.value()))) {
      return refused("ibv_attach_mcast", error);
    }
    attached_.emplace(mgid, mlid);
  }
  return {};
}

ibv_ah* UdPort::address_handle(const mad::MadAddress& to) {
  const verbs::GlobalRoute global = to.global.value_or(verbs::GlobalRoute{});
  const AddressKey key{to.lid.value(),    to.sl.value(),    to.path_bits,        global.dgid,
                       global.flow_label, global.hop_limit, global.traffic_class};
  if (const auto found = handles_.find(key); found != handles_.end()) {
    return found->second;
  }
  if (handles_.size() >= kMostHandles) {
    if (free_.size() < kSends) {
      return nullptr;  // some may be in use
    }
    for (const auto& [old, handle] : std::exchange(handles_, {})) {
      ibv_destroy_ah(handle);
    }
  }
  ibv_ah_attr attributes{};
  attributes.dlid = static_cast<std::uint16_t>(to.lid.value());
  attributes.sl = to.sl.value();
  attributes.src_path_bits = to.path_bits;
  attributes.port_num = port_;
  if (to.global) {
    attributes.is_global = 1;
    attributes.grh.dgid = raw(global.dgid);
    attributes.grh.flow_label = global.flow_label;
    attributes.grh.hop_limit = global.hop_limit;
    attributes.grh.traffic_class = global.traffic_class;
  }
  ibv_ah* const handle = ibv_create_ah(pd_, &attributes);
  if (handle != nullptr) {
    handles_.emplace(key, handle);
  }
  return handle;
}

void UdPort::send(const mad::Datagram& datagram) {
  ibv_ah* const handle =
      datagram.payload.size() <= kSlotBytes ? address_handle(datagram.to) : nullptr;
  if (handle == nullptr || free_.empty()) {
    ++counters_.refused;
    return;
  }
  const std::uint32_t slot = free_.back();
  copy_bytes({slot_at(slot), kSlotBytes}, datagram.payload);
  ibv_sge piece{.addr = std::bit_cast<std::uint64_t>(slot_at(slot)),
                .length = static_cast<std::uint32_t>(datagram.payload.size()),
                .lkey = mr_->lkey};
  ibv_send_wr request{};
  request.wr_id = slot;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.ud.ah = handle;
  request.wr.ud.remote_qpn = datagram.to.qp.value();
  request.wr.ud.remote_qkey = datagram.to.qkey.value();
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(qp_, &request, &bad) != 0) {
    ++counters_.refused;
    return;
  }
  free_.pop_back();
}

bool UdPort::handle_completions(bool has_event, const Receiver& receiver) {
  // The event first, then armed anew, then completions: one that comes in between is polled here or
  // makes another event (IBTA vol 1 §11.4.2.2).
  ibv_cq* of = nullptr;
  void* context = nullptr;
  if (has_event && ibv_get_cq_event(channel_, &of, &context) == 0) {
    ibv_ack_cq_events(of, 1);
    static_cast<void>(ibv_req_notify_cq(cq_, 0));
  }
  std::array<ibv_wc, kBatch> completions{};
  const int count = ibv_poll_cq(cq_, kBatch, completions.data());
  for (const ibv_wc& completion :
       std::span{completions}.first(static_cast<std::size_t>(std::max(count, 0)))) {
    const auto slot = static_cast<std::uint32_t>(completion.wr_id);
    counters_.failed += completion.status == IBV_WC_SUCCESS ? 0 : 1;
    if (slot >= kReceives) {
      free_.push_back(slot);
      continue;
    }
    if (completion.status == IBV_WC_SUCCESS) {
      receive(completion, receiver);
    }
    static_cast<void>(post_receive(slot));
  }
  return count == kBatch;
}

void UdPort::receive(const ibv_wc& completion, const Receiver& receiver) {
  const bool is_own =
      completion.src_qp == qp_->qp_num && Lid{completion.slid} == lid_;  // multicast comes back
  if (is_own || completion.byte_len < kGrhBytes || completion.byte_len > kSlotBytes) {
    return;
  }
  const std::span<const std::byte> whole{slot_at(static_cast<std::uint32_t>(completion.wr_id)),
                                         completion.byte_len};
  mad::ReceivedDatagram received{
      .destination_qp = qpn(),
      .destination_gid = {},
      .source = {.lid = Lid{completion.slid},
                          .sl = ServiceLevel{completion.sl},
                          .qp = Qpn{completion.src_qp},
                          .qkey = qkey_,  // else the QP had not taken it
                 .pkey = pkeys_.empty() ? kDefaultPKey : pkeys_.front(),
                          .path_bits = completion.dlid_path_bits,
                          .global = std::nullopt},
      .payload = whole.subspan(kGrhBytes)
  };
  if ((completion.wc_flags & IBV_WC_GRH) != 0) {
    const auto grh = wire::unpack<wire::Grh>(whole.first<wire::kSizeOf<wire::Grh>>());
    received.destination_gid = grh.dgid;
    received.source.global = verbs::GlobalRoute{.dgid = grh.sgid,
                                                .flow_label = grh.flow_label,
                                                .hop_limit = 0xFF,
                                                .traffic_class = grh.traffic_class};
    if (grh.dgid.is_multicast()) {
      received.destination_qp = kMulticastQpn;
    }
  }
  receiver(received);
}

UdPort::Event UdPort::take_event() { return take_port_event(*context_); }

}  // namespace weft::programs::net
