// A hostile peer sends any decodable record to a QP of any type in any state: every call must
// return, invariants must hold, and memory outside of registered regions must not be accessed.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/process_slot.h"
#include "base/random.h"
#include "base/testing/pieces.h"
#include "hca/hca.h"
#include "hca/memory_window.h"
#include "hca/packet_record.h"
#include "hca/qp.h"
#include "verbs/mtu.h"

namespace weft::hca {
namespace {

constexpr Psn kFirstPsn{0xFF'FFF8};  // wraps soon
constexpr QKey kQKey{0x1111};
constexpr Lid kOwnLid{1};
constexpr Lid kPeerLid{2};
constexpr std::uint64_t kIova = 0x10000;
constexpr std::size_t kMemoryBytes = 8'192;
constexpr std::size_t kGuardBytes = 64;
constexpr std::uint16_t kMtuBytes = 256;
constexpr std::uint32_t kOthersSlot = 2;  // process slot in which the other SRQs live
constexpr std::uint32_t kOwnSlot = 1;
constexpr std::uint32_t kDomainName = 7;

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

class Nobody final : public HcaEvents {
 public:
  bool listens{};
  std::optional<XrcProxyRequest> wanted;  // the newest request
  void xrc_proxy_requested(const XrcProxyRequest& request) override { wanted = request; }
  void completion_event(CompletionQueue&) override {}
  void async_event(const AsyncEvent&) override {}
  [[nodiscard]] bool explains_errors() const override { return listens; }
  void explain(std::string_view reason) override { require(!reason.empty()); }
};

/// A sink that may have no room. It keeps of the packets only the PSN that the next response should
/// have.
class Void final : public TransmitSink {
 public:
  Void(unsigned room, Psn& expected) : room_(room), expected_(expected) {}
  [[nodiscard]] std::uint32_t max_train_bytes() const override { return 2 * kMtuBytes; }
  [[nodiscard]] bool send(Flow, const PacketHeader& header,
                          std::span<const ByteSpan> gather) override {
    std::size_t bytes = 0;
    for (const ByteSpan piece : gather) {
      bytes += piece.size();
    }
    require(header.packet_count != 0 &&
            bytes <= std::size_t{header.packet_count} * header.path_mtu_bytes);
    if (room_ == 0) {
      return false;
    }
    --room_;
    if (header.opcode == wire::Opcode::RcAcknowledge ||
        header.opcode == wire::Opcode::XrcAcknowledge) {
      const wire::Syndrome syndrome = header.extension.response.aeth.syndrome;
      expected_ = syndrome.kind() == wire::SyndromeKind::Ack ? header.psn + 1 : header.psn;
    }
    return true;
  }

 private:
  unsigned room_;
  Psn& expected_;
};

/// The fuzzer's input, read from the front; zeros follow its end.
class Script {
 public:
  explicit Script(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  [[nodiscard]] bool is_over() const { return bytes_.empty(); }
  std::uint8_t next() {
    if (bytes_.empty()) {
      return 0;
    }
    const std::uint8_t octet = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return octet;
  }
  std::uint32_t next_word() {
    std::uint32_t word = next();
    for (int i = 0; i < 3; ++i) {
      word = word << 8 | next();
    }
    return word;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

/// An HCA that lives as long as the program; its QPs live for one input.
struct Target {
  Target() : hca(configuration(), events) {
    PortAttributes port;
    port.state = PortState::Active;
    port.lid = kOwnLid;
    port.gids = {
        Gid{kDefaultGidPrefix, Guid{1}}
    };
    port.pkeys = {kDefaultPKey};
    hca.set_port(PortNumber{1}, port);
    pd = *hca.allocate_pd();
    cq = *hca.create_cq(64);
    xrcd = *hca.open_xrc_domain(kDomainName);
    xrc_srq = *hca.create_xrc_srq(*pd, *xrcd, *cq, 8, 1);
    memory.assign(kMemoryBytes + 2 * kGuardBytes, std::byte{0x5A});
    region = *hca.register_memory(*pd, kIova, std::span{memory}.subspan(kGuardBytes, kMemoryBytes),
                                  AccessFlags{Access::LocalWrite} | Access::RemoteWrite |
                                      Access::RemoteRead | Access::RemoteAtomic |
                                      Access::MemoryWindowBind);
    AddressVector to;
    to.dlid = kPeerLid;
    to.port = PortNumber{1};
    ah = *hca.create_ah(*pd, to);
  }

  static HcaConfiguration configuration() {
    HcaConfiguration configuration;
    configuration.loss_model = LossModel::Reliable;
    configuration.seed = 1;
    configuration.limits.max_qp = 64;
    configuration.limits.max_mr = 4;
    configuration.first_qpn = first_qpn_of(kOwnSlot);
    configuration.max_train_bytes = 2 * kMtuBytes;
    return configuration;
  }

  Nobody events;
  Hca hca;
  ProtectionDomain* pd{};
  CompletionQueue* cq{};
  XrcDomain* xrcd{};
  SharedReceiveQueue* xrc_srq{};
  MemoryRegion* region{};
  AddressHandle* ah{};
  std::vector<std::byte> memory;
};

void require_done(const Result<void>& done) { require(done.has_value()); }

void bring_up(Qp& qp) {
  QpAttributes to;
  to.state = QpState::Init;
  to.port = PortNumber{1};
  to.access = AccessFlags{Access::RemoteWrite} | Access::RemoteRead | Access::RemoteAtomic;
  to.qkey = kQKey;
  to.path_mtu = verbs::Mtu::Mtu256;
  to.dest_qpn = Qpn{0x8001};
  to.rq_psn = to.sq_psn = kFirstPsn;
  to.max_dest_rd_atomic = to.max_rd_atomic = 2;
  to.min_rnr_timer = 1;
  to.address.dlid = kPeerLid;
  to.address.port = PortNumber{1};
  to.timeout = TimeoutExponent{14};
  to.retry_count = to.rnr_retry = 2;
  using A = QpAttribute;
  const bool is_ud = qp.type() == QpType::Ud;
  const bool requests = qp.type() == QpType::Rc || qp.type() == QpType::XrcInitiator;
  const bool responds = qp.type() == QpType::Rc || qp.type() == QpType::XrcTarget;
  QpAttributeMask mask = QpAttributeMask{A::State} | A::PKeyIndex | A::Port;
  mask |= is_ud ? A::QKey : A::RemoteAccess;
  require_done(qp.modify(to, mask));
  to.state = QpState::Rtr;
  mask = A::State;
  if (!is_ud) {
    mask |= QpAttributeMask{A::AddressVector} | A::PathMtu | A::DestQpn | A::RqPsn;
  }
  if (responds) {
    mask |= QpAttributeMask{A::MaxDestRdAtomic} | A::MinRnrTimer;
  }
  require_done(qp.modify(to, mask));
  to.state = QpState::Rts;
  mask = QpAttributeMask{A::State} | A::SqPsn;
  if (requests) {
    mask |= QpAttributeMask{A::Timeout} | A::RetryCount | A::RnrRetry | A::MaxQpRdAtomic;
  } else if (responds) {
    mask |= A::Timeout;
  }
  require_done(qp.modify(to, mask));
}

class Attack {
 public:
  Attack(Target& target, Script script) : target_(target), script_(script) {
    constexpr std::array kTypes{QpType::Rc,           QpType::Rc,        QpType::Uc, QpType::Ud,
                                QpType::XrcInitiator, QpType::XrcTarget, QpType::Uc, QpType::Ud};
    QpInit init;
    const std::uint8_t choice = script_.next();
    init.type = kTypes[choice % kTypes.size()];
    target.events.listens = choice >= 0xF0;  // formatting reasons takes most of the time
    init.pd = target.pd;
    init.send_cq = init.recv_cq = target.cq;
    init.xrcd = target.xrcd;
    init.capabilities = {.max_send_wr = 8,
                         .max_recv_wr = 8,
                         .max_send_sge = 1,
                         .max_recv_sge = 1,
                         .max_inline_data = 0};
    qp_ = *target.hca.create_qp(init);
    window_ = *target.hca.allocate_window(*target.pd, WindowType::Type2);
    bring_up(*qp_);
  }

  void run() {
    while (!script_.is_over()) {
      step(script_.next());
    }
    require_done(target_.hca.destroy_qp(*qp_));
    target_.hca.deallocate_window(*window_);
    poll();
    require(target_.xrc_srq->uses.load() == 0);
    ReceiveWqe left;
    while (target_.xrc_srq->take(left)) {
    }
    const auto is_untouched = [](std::byte octet) { return octet == std::byte{0x5A}; };
    require(std::ranges::all_of(std::span{target_.memory}.first(kGuardBytes), is_untouched));
    require(std::ranges::all_of(std::span{target_.memory}.last(kGuardBytes), is_untouched));
  }

 private:
  void step(std::uint8_t what) {
    Qp& qp = *qp_;
    if ((what & 0x47) == 0x46) {
      handle_proxy_event(qp, what);
      qp.check_invariants();
      return;
    }
    switch (what & 7) {
      case 0:
        post_send(qp);
        break;
      case 1:
        post_receive(qp);
        break;
      case 2: {
        Void sink{script_.next(), expected_};
        static_cast<void>(qp.transmit(sink, now_, 4));
        break;
      }
      case 3:
        now_ = now_ + Duration::milliseconds(script_.next());
        if ((what & 0x80) != 0) {
          qp.report_loss();
        }
        if (qp.deadline() <= now_) {
          qp.handle_timeout(now_);
        }
        poll();
        break;
      case 7:
        if (!last_.empty()) {  // a repeated request is a duplicate, or retries one that was refused
          deliver(last_, false);
          break;
        }
        [[fallthrough]];
      default:
        receive(qp, (what & 0x80) != 0);
    }
    qp.check_invariants();
  }

  /// Simulates a driver's notifications to an XRC target: a proxy was made, none can be made, or a
  /// process is gone.
  void handle_proxy_event(Qp& qp, std::uint8_t what) {
    if ((what & 8) != 0) {
      qp.handle_owner_gone(kOthersSlot);
    } else if (const auto wanted = std::exchange(target_.events.wanted, std::nullopt)) {
      const std::uint32_t serial = wanted->serial + ((what & 0x20) != 0 ? 1 : 0);
      qp.handle_proxy(kOthersSlot, serial,
                      (what & 0x10) != 0 ? std::nullopt : std::optional{first_qpn_of(kOthersSlot)});
    }
  }

  void poll() {
    std::array<Wc, 16> completions;
    while (target_.cq->poll(completions) != 0) {
    }
  }

  [[nodiscard]] Sge sge() {
    return {.address = kIova + script_.next() * 16U,
            .length = script_.next() * 8U,
            .lkey = target_.region->lkey};
  }

  void post_send(Qp& qp) {
    SendWr wr;
    wr.opcode = static_cast<WrOpcode>(script_.next() % 10);
    wr.flags = Send::Signaled;
    const Sge part = sge();
    wr.sges = {&part, 1};
    wr.remote_address = kIova;
    wr.rkey = RKey{script_.next()};
    const WindowBinding binding{.rkey = window_->rkey(),
                                .lkey = target_.region->lkey,
                                .address = part.address,
                                .length = part.length,
                                .access = AccessFlags::from_bits(wr.rkey.value() % 64)};
    if (wr.opcode == WrOpcode::BindMemoryWindow) {
      wr.binding = &binding;
    } else if (wr.opcode == WrOpcode::LocalInvalidate) {
      wr.rkey = window_->rkey();
    }
    wr.ah = target_.ah;
    wr.remote_qpn = Qpn{0x8001};
    wr.remote_qkey = kQKey;
    static_cast<void>(qp.post_send(wr));
  }

  void post_receive(Qp& qp) {
    const Sge part = sge();
    RecvWr wr;
    wr.sges = {&part, 1};
    static_cast<void>(qp.type() == QpType::XrcTarget ? target_.xrc_srq->post(wr)
                                                     : qp.post_recv(wr));
  }

  /// A PSN as a correct peer would use it, having received the last response or an earlier one, or
  /// any of the first few.
  Psn psn(Qp& qp) {
    constexpr std::uint8_t kExpected = 0x80;
    constexpr std::uint8_t kBefore = 0xE0;
    const std::uint8_t choice = script_.next();
    if (choice >= kExpected) {
      Void sink{0xFF, expected_};
      static_cast<void>(qp.transmit(sink, now_, 4));
    }
    return choice < kExpected ? kFirstPsn + choice % 32
           : choice < kBefore ? expected_
                              : expected_ - 1 - choice % 32;
  }

  /// Advances the PSN that a correct peer would use next.
  void count(const PacketHeader& header) {
    std::uint32_t packets = header.packet_count;
    if (wire::opcode_info(header.opcode)->operation == wire::Operation::RdmaReadRequest) {
      const std::uint32_t bytes = header.extension.reth.dma_length;
      packets = std::max(1U, bytes / kMtuBytes + (bytes % kMtuBytes != 0 ? 1U : 0U));
    }
    if (header.psn == expected_ && packets < 64) {
      expected_ = expected_ + packets;
    }
  }

  /// Fills in the headers that a QP checks, unless the script wants arbitrary ones.
  void aim(Qp& qp, bool anything, PacketHeader& header) {
    const wire::ExtensionHeaders headers = wire::opcode_info(header.opcode)->headers;
    header.slid = anything ? Lid{script_.next()} : kPeerLid;
    header.dlid = kOwnLid;
    header.pkey = anything ? PKey{script_.next()} : kDefaultPKey;
    header.dest_qp = qp.number();
    header.psn = anything ? Psn{script_.next_word()} : psn(qp);
    const std::uint8_t bits = script_.next();
    header.ack_request = (bits & 1) != 0;
    header.solicited = (bits & 2) != 0;
    header.has_grh = (bits & 4) != 0;
    const RKey known = (bits & 24) == 24 ? window_->rkey() : target_.region->rkey;
    header.immediate_or_rkey = (bits & 8) != 0 ? known.value() : bits;
    const RKey rkey = (bits & 24) == 16 ? RKey{bits} : known;
    if (headers.has(wire::ExtensionHeader::Xrceth)) {
      header.xrc_srqn = anything             ? script_.next()
                        : (bits & 0x80) != 0 ? first_qpn_of(kOthersSlot).value() + 1
                                             : target_.xrc_srq->xrc().number;
    }
    const std::uint64_t address =
        kIova + ((bits & 32) != 0 ? script_.next_word() : script_.next() * 16U);
    if (headers.has(wire::ExtensionHeader::Reth)) {
      header.extension.reth.virtual_address = address;
      header.extension.reth.rkey = rkey;
      header.extension.reth.dma_length =
          (bits & 64) != 0 ? script_.next_word() : script_.next() * 8U;
      if (headers.has(wire::ExtensionHeader::Feth)) {
        const std::uint8_t what = script_.next();
        header.extension.flush.feth = {.selectivity = what >> 4 & (anything ? 3U : 1U),
                                       .placement = what & (anything ? 15U : 3U)};
      }
    } else if (headers.has(wire::ExtensionHeader::AtomicEth)) {
      header.extension.atomic_eth.virtual_address = address;
      header.extension.atomic_eth.rkey = rkey;
    } else if (headers.has(wire::ExtensionHeader::Deth)) {
      header.extension.deth.qkey = (bits & 64) != 0 ? QKey{bits} : kQKey;
      header.extension.deth.src_qp = Qpn{script_.next_word() & 0xFF'FFFF};
    } else {
      header.extension.response = {};
      header.extension.response.aeth.syndrome = wire::Syndrome{script_.next()};
      header.extension.response.aeth.msn = Msn{script_.next()};
    }
  }

  /// An opcode of the QP's transport, unless the script wants any.
  wire::Opcode opcode(const Qp& qp, bool anything) {
    const auto table = wire::opcode_table();
    const wire::Transport wanted = qp.type() == QpType::Rc   ? wire::Transport::Rc
                                   : qp.type() == QpType::Uc ? wire::Transport::Uc
                                   : qp.type() == QpType::Ud ? wire::Transport::Ud
                                                             : wire::Transport::Xrc;
    std::size_t index = script_.next() % table.size();
    while (!anything && table[index].transport != wanted) {
      index = (index + 1) % table.size();
    }
    return table[index].opcode;
  }

  void receive(Qp& qp, bool anything) {
    PacketHeader header;
    header.opcode = header.last_opcode = opcode(qp, anything);
    header.path_mtu_bytes = kMtuBytes;
    const std::uint8_t shape = script_.next();
    if ((shape & 1) != 0) {
      header.last_opcode = opcode(qp, anything);
      header.packet_count = static_cast<std::uint16_t>(2 + (shape >> 1) % 3);
    }
    if (anything && (shape & 0x80) != 0) {
      header.path_mtu_bytes = 1024;
    }
    aim(qp, anything, header);
    const wire::PayloadRule rule = wire::opcode_info(header.last_opcode)->payload;
    const bool is_atomic_write =
        wire::opcode_info(header.last_opcode)->operation == wire::Operation::AtomicWrite;
    const std::size_t last = rule == wire::PayloadRule::None      ? 0U
                             : is_atomic_write && !anything       ? 8U
                             : rule == wire::PayloadRule::FullMtu ? header.path_mtu_bytes
                             : (shape & 0x40) != 0                ? kMtuBytes
                                                                  : script_.next() % kMtuBytes;
    const std::size_t payload =
        std::size_t{header.path_mtu_bytes} * (header.packet_count - 1U) + last;
    // A response to an XRC target can only come from a proxy: from its process, to and from the
    // port's own LID.
    const bool is_for_proxy = qp.type() == QpType::XrcTarget &&
                              wire::is_response(wire::opcode_info(header.opcode)->operation) &&
                              !anything;
    if (is_for_proxy) {
      header.slid = kOwnLid;
      header.psn = Psn{script_.next() % 4U};
    }
    static std::array<std::byte, kMaxRecordHeaderBytes + 8'192> record{};
    const std::size_t header_bytes =
        encode_record_header(header, std::span{record}.first<kMaxRecordHeaderBytes>());
    const ByteSpan whole = ByteSpan{record}.first(header_bytes + payload);
    if (!wire::is_response(wire::opcode_info(header.opcode)->operation)) {
      last_.assign(whole.begin(), whole.end());
      count(header);
    }
    deliver(whole, is_for_proxy);
  }

  void deliver(ByteSpan record, bool is_for_proxy) {
    auto packet = decode_record(record);
    if (packet) {
      packet->source_slot = is_for_proxy ? kOthersSlot : 0;
      static_cast<void>(target_.hca.handle_packet(PortNumber{1}, *packet, now_));
    }
  }

  Target& target_;
  Script script_;
  Qp* qp_{};
  MemoryWindow* window_{};
  Psn expected_{kFirstPsn};
  std::vector<std::byte> last_;  // the newest request that was received
  Instant now_{Duration::milliseconds(1)};
};

/// One step of Attack, encoded as script octets: a valid next request, room for transmitting, a
/// response, or a repetition.
void add_step(Random& random, fuzz::Octets& script) {
  const auto octet = [&](std::uint64_t bound) {
    return static_cast<std::uint8_t>(random.below(bound));
  };
  const auto add = [&](std::initializer_list<std::uint8_t> octets) {
    script.insert(script.end(), octets);
  };
  switch (random.below(8)) {
    case 0:
      return add({1, octet(64), octet(64)});  // post a receive
    case 1:
      return add({2, 0xFF});  // transmit
    case 2:
      return add({7});  // the last request again
    case 3:
      return add({0, octet(10), octet(64), octet(32), octet(2)});  // a work request of its own
    default:
      break;
  }
  constexpr std::uint8_t kExpectedPsn = 0x80;
  const std::uint8_t shape = random.chance(1, 4) ? 0x40 : 0;  // a payload of a whole MTU
  const auto bits = static_cast<std::uint8_t>(octet(4) | (random.chance(1, 8) ? 24 : 0));
  add({4, octet(256), shape, kExpectedPsn, bits, octet(32), octet(64), octet(255), octet(255)});
}

}  // namespace
}  // namespace weft::hca

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static weft::hca::Target target;
  weft::hca::Attack{target, weft::hca::Script{{data, size}}}.run();
  return 0;
}

/// Sometimes appends steps to the input or replaces it.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  constexpr std::uint64_t kSeldom = 8;
  constexpr std::uint64_t kMaxSteps = 8;
  weft::Random random{seed};
  if (random.chance(1, kSeldom)) {
    weft::fuzz::Octets script(data, data + (random.chance(3, 4) ? size : 0));
    if (script.empty()) {
      script.push_back(static_cast<std::uint8_t>(random()));
    }
    for (std::uint64_t steps = 1 + random.below(kMaxSteps); steps != 0; --steps) {
      weft::hca::add_step(random, script);
    }
    size = std::min(script.size(), most);
    std::copy_n(script.begin(), size, data);
    return size;
  }
  return LLVMFuzzerMutate(data, size, most);
}
