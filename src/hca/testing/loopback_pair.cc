#include "hca/testing/loopback_pair.h"

#include <algorithm>
#include <array>

#include "base/assert.h"
#include "hca/packet_record.h"
#include "hca/wire_length.h"

namespace weft::hca::testing {

class LoopbackPair::Sink final : public TransmitSink {
 public:
  Sink(LoopbackPair& pair, int from) : pair_(pair), from_(from) {}
  [[nodiscard]] std::uint32_t max_train_bytes() const override {
    return pair_.options_.train_bytes;
  }
  [[nodiscard]] bool send(Flow flow, const PacketHeader& header,
                          std::span<const ByteSpan> gather) override {
    InFlightPacket in_flight_packet{
        .to = 1 - from_, .flow = flow, .header = header, .payload = {}, .pieces = gather.size()};
    for (const ByteSpan piece : gather) {
      in_flight_packet.payload.insert(in_flight_packet.payload.end(), piece.begin(), piece.end());
    }
    pair_.sent.push_back(in_flight_packet);
    if (!pair_.filter || pair_.filter(in_flight_packet)) {
      pair_.wire.push_back(std::move(in_flight_packet));
    }
    return true;
  }
  /// As a ring has it: written, read, and the same record when its header is written again. Not
  /// each, as a ring without room.
  [[nodiscard]] bool send_fast(Flow flow, const SinglePacket& packet) override {
    if (!pair_.options_.has_fast_path || pair_.sent.size() % 7 == 6) {
      return false;
    }
    std::vector<std::byte> record(record_bytes(packet));
    write_record(packet, record.data());
    const auto read = decode_record(record);
    WEFT_ASSERT(read, "the harness is used as it is meant");
    std::vector<std::byte> again(kMaxRecordHeaderBytes + read->payload.size());
    const RecordHeader header{read->header};
    const std::array gather{read->payload};
    header.write(again.data(), gather);
    again.resize(header.bytes() + read->payload.size());
    WEFT_ASSERT(again == record, "the harness is used as it is meant");
    WEFT_ASSERT(single_length_words(opcode_of(packet), packet.payload.size()) ==
                    packet_length_words(read->header, read->payload.size()),
                "the harness is used as it is meant");
    ++pair_.fast_path_count;
    return send(flow, read->header, gather);
  }

  [[nodiscard]] PlacementMeans may_place(const PlacementTarget& target) override {
    ++pair_.placements_asked;
    return memory_of_peer(target).empty() ? PlacementMeans::None : pair_.means;
  }
  [[nodiscard]] PlacementMeans place(const Placement& part) override {
    const MutableByteSpan memory = memory_of_peer(part.target);
    if (memory.empty() || (pair_.may_place && !pair_.may_place(part)) ||
        (part.atomic && pair_.means != PlacementMeans::SharedPages)) {
      return PlacementMeans::None;
    }
    GrantedMemory::move(part, memory);
    pair_.placed.push_back(traffic_of(part));
    return pair_.means;
  }
  [[nodiscard]] Instant time_after(Instant start) const override {
    pair_.wait(pair_.copy_takes);
    return start + pair_.copy_takes;
  }

 private:
  [[nodiscard]] MutableByteSpan memory_of_peer(const PlacementTarget& target) const {
    return pair_.options_.places
               ? pair_.side(1 - from_).events.granted.find(target.request.dest_qp, target)
               : MutableByteSpan{};
  }

  LoopbackPair& pair_;
  int from_;
};

LoopbackPair::LoopbackPair(const PairOptions& options) : options_(options) {
  for (std::size_t i = 0; i < 2; ++i) {
    HcaConfiguration configuration;
    configuration.loss_model = options.loss_model;
    configuration.has_fast_path = options.has_fast_path;
    configuration.seed = 7 + i;
    configuration.placement = options.placement;
    configuration.user_memory = options.user_memory;
    configuration.lock_policy = options.lock_policy;
    configuration.time_scale = options.time_scale;
    configuration.limits.max_qp = 64;
    configuration.limits.max_mr = 64;
    configuration.port_count = options.port_count;
    configuration.first_qpn = Qpn{static_cast<std::uint32_t>(0x100 * (i + 1))};
    sides_[i] = std::make_unique<Side>(configuration);
    Side& side = *sides_[i];
    side.events.lets_peers_place = options.places;
    PortAttributes port;
    port.state = PortState::Active;
    port.pkeys = {kDefaultPKey};
    for (std::uint8_t number = 1; number <= options.port_count; ++number) {
      port.lid = lid_of(static_cast<int>(i), number);
      port.gids = {
          Gid{kDefaultGidPrefix, Guid{number * 0x10 + i}}
      };
      side.hca.set_port(PortNumber{number}, port);
    }
    side.pd = *side.hca.allocate_pd();
    side.send_cq = *side.hca.create_cq(options.cq_depth);
    side.recv_cq = *side.hca.create_cq(options.cq_depth);
    const bool is_target = options.type == QpType::XrcInitiator && i == 1;
    if (is_target) {
      side.xrcd = *side.hca.open_xrc_domain();
      side.srq = *side.hca.create_xrc_srq(*side.pd, *side.xrcd, *side.recv_cq, options.depth, 4);
    }
    if (options.shared_receive_queue) {
      side.srq = *side.hca.create_srq(*side.pd, options.depth, 4, 0);
    }
    side.memory.resize(options.memory_bytes);
    side.region =
        *side.hca.register_memory(*side.pd, 0x10000 * (i + 1), side.memory, options.region_access);
    side.qp = *side.hca.create_qp({
        .type = is_target ? QpType::XrcTarget : options.type,
        .pd = side.pd,
        .send_cq = side.send_cq,
        .recv_cq = side.recv_cq,
        .srq = side.srq,
        .xrcd = side.xrcd,
        .signal_all = false,
        .capabilities = {.max_send_wr = options.depth,
                         .max_recv_wr = options.depth,
                         .max_send_sge = 4,
                         .max_recv_sge = 4,
                         .max_inline_data = 256}
    });
  }
}

void LoopbackPair::to_init(Side& side) {
  QpAttributes attributes;
  attributes.state = QpState::Init;
  attributes.port = PortNumber{1};
  attributes.access = options_.qp_access;
  attributes.qkey = options_.qkey;
  const QpAttributeMask last =
      options_.type == QpType::Ud ? QpAttribute::QKey : QpAttribute::RemoteAccess;
  const auto modified =
      side.qp->modify(attributes, QpAttributeMask{QpAttribute::State} | QpAttribute::PKeyIndex |
                                      QpAttribute::Port | last);
  WEFT_ASSERT(modified, "the harness is used as it is meant");
  static_cast<void>(modified);
}

void LoopbackPair::to_rtr(Side& side, const Side& peer) {
  QpAttributes attributes;
  attributes.state = QpState::Rtr;
  attributes.path_mtu = options_.mtu;
  attributes.dest_qpn = peer.qp->number();
  attributes.rq_psn = options_.first_psn;
  attributes.max_dest_rd_atomic = options_.max_rd_atomic;
  attributes.min_rnr_timer = options_.min_rnr_timer;
  attributes.address.dlid = Lid{&peer == sides_[0].get() ? 1U : 2U};
  attributes.address.port = PortNumber{1};
  attributes.address.source_path_bits = options_.source_path_bits;
  QpAttributeMask mask = QpAttribute::State;
  if (options_.type != QpType::Ud) {
    mask |= QpAttributeMask{QpAttribute::AddressVector} | QpAttribute::PathMtu |
            QpAttribute::DestQpn | QpAttribute::RqPsn;
  }
  if (side.qp->type() == QpType::Rc || side.qp->type() == QpType::XrcTarget) {
    mask |= QpAttributeMask{QpAttribute::MaxDestRdAtomic} | QpAttribute::MinRnrTimer;
  }
  const auto modified = side.qp->modify(attributes, mask);
  WEFT_ASSERT(modified, "the harness is used as it is meant");
  static_cast<void>(modified);
}

void LoopbackPair::to_rts(Side& side) {
  QpAttributes attributes;
  attributes.state = QpState::Rts;
  attributes.sq_psn = options_.first_psn;
  attributes.timeout = TimeoutExponent{options_.timeout};
  attributes.retry_count = options_.retry_count;
  attributes.rnr_retry = options_.rnr_retry;
  attributes.max_rd_atomic = options_.max_rd_atomic;
  QpAttributeMask mask = QpAttributeMask{QpAttribute::State} | QpAttribute::SqPsn;
  if (side.qp->type() == QpType::Rc || side.qp->type() == QpType::XrcInitiator) {
    mask |= QpAttributeMask{QpAttribute::Timeout} | QpAttribute::RetryCount |
            QpAttribute::RnrRetry | QpAttribute::MaxQpRdAtomic;
  } else if (side.qp->type() == QpType::XrcTarget) {
    mask |= QpAttribute::Timeout;
  }
  const auto modified = side.qp->modify(attributes, mask);
  WEFT_ASSERT(modified, "the harness is used as it is meant");
  static_cast<void>(modified);
}

void LoopbackPair::connect() {
  for (auto& side : sides_) {
    to_init(*side);
  }
  to_rtr(a(), b());
  to_rtr(b(), a());
  to_rts(a());
  to_rts(b());
}

void LoopbackPair::collect() {
  for (int i = 0; i < 2; ++i) {
    Sink sink{*this, i};
    Side& from = side(i);
    from.hca.for_each_qp([&](Qp& qp) {
      while (qp.needs_transmit() && qp.transmit(sink, now_, 16)) {
      }
      qp.check_invariants();
    });
  }
}

void LoopbackPair::collect_from(int side, unsigned packets) {
  Sink sink{*this, side};
  this->side(side).hca.for_each_qp([&](Qp& qp) {
    if (qp.needs_transmit()) {
      qp.transmit(sink, now_, packets);
    }
    qp.check_invariants();
  });
}

Result<bool> LoopbackPair::post_and_transmit(int side, const SendWr& wr) {
  Sink sink{*this, side};
  return this->side(side).qp->post_and_transmit(wr, sink, now_, 16);
}

bool LoopbackPair::deliver_one() {
  if (wire.empty()) {
    return false;
  }
  const InFlightPacket in_flight_packet = std::move(wire.front());
  wire.pop_front();
  const std::uint8_t port = in_flight_packet.header.dlid.value() > 16 ? 2 : 1;
  side(in_flight_packet.to).hca.handle_packet(PortNumber{port}, in_flight_packet.packet(), now_);
  return true;
}

bool LoopbackPair::fire_next_timer() {
  Instant next = Instant::never();
  for (auto& side : sides_) {
    side->hca.for_each_qp([&](Qp& qp) { next = std::min(next, qp.deadline()); });
  }
  if (next == Instant::never()) {
    return false;
  }
  now_ = std::max(now_, next);
  for (auto& side : sides_) {
    side->hca.for_each_qp([&](Qp& qp) {
      if (qp.deadline() <= now_) {
        qp.handle_timeout(now_);
      }
    });
  }
  return true;
}

bool LoopbackPair::run(Duration until) {
  const Instant end = now_ + until;
  while (now_ < end) {
    collect();
    if (deliver_one()) {
      now_ = now_ + Duration::microseconds(1);
      continue;
    }
    if (!fire_next_timer()) {
      return true;
    }
  }
  return false;
}

std::vector<Wc> LoopbackPair::poll(CompletionQueue& cq) {
  std::vector<Wc> all(cq.capacity());
  all.resize(cq.poll(all));
  return all;
}

}  // namespace weft::hca::testing
