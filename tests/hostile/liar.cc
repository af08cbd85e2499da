#include "liar.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/process_slot.h"
#include "hca/packet_record.h"
#include "os/clock.h"
#include "os/futex.h"

namespace weft::hostile {
namespace {

constexpr std::uint32_t kSlotsTried =
    192;  // of each host: how many programs a run of the tests has
constexpr Duration kLookEvery = Duration::milliseconds(100);
constexpr std::uint32_t kQpsTried = 4;

[[noreturn]] void give_up(std::string_view why) {
  fmt::print(stderr, "hostile_peer: {}\n", why);
  std::exit(2);
}

}  // namespace

host::LaneHead& Victim::head(std::uint32_t lane) const {
  return host::lane_head(memory.bytes(), lane);
}

ring::LaneEnds& Victim::any(Random& random) {
  return ends[static_cast<std::size_t>(random.below(ends.size()))];
}

host::AttentionPage& Victim::attention() const {
  void* const start = page.bytes().data();
  return *static_cast<host::AttentionPage*>(start);
}

Liar::Liar(std::string control_path, std::string host, std::uint64_t seed)
    : random(seed), path_(std::move(control_path)), host_(std::move(host)) {}

host::ControlSocket Liar::connect() const {
  auto socket = host::ControlSocket::connect(path_);
  return socket ? std::move(*socket) : host::ControlSocket{};
}

void Liar::attach() {
  control_ = connect();
  if (!control_ || !control_.send(uabi::Hello{.host = host_})) {
    give_up("no daemon");
  }
  auto answer = control_.receive(Duration::seconds(10));
  if (!answer) {
    give_up(answer.error().reason);
  }
  const auto* const welcome = answer->message.get_if<uabi::Welcome>();
  if (welcome == nullptr) {
    give_up("not welcome");
  }
  self = welcome->self;
  tables_file = std::move(answer->descriptors[0]);
  counters_file = std::move(answer->descriptors[1]);
  page_file = std::move(answer->descriptors[2]);
  tables_ = std::move(*os::map_published(tables_file, std::size_t{1} << 30));
  view = *fabric::TablesView::open(tables_.bytes());
}

void Liar::detach() {
  victims.clear();
  control_ = {};
}

void Liar::look_around() {
  pump();
  const Instant at = os::now();
  if (!control_ || at - looked_at_ < kLookEvery) {
    return;
  }
  looked_at_ = at;
  for (std::uint32_t node = 0; node < view->nodes().size(); ++node) {
    if (view->nodes()[node].kind == fabric::NodeKind::Switch) {
      continue;
    }
    for (std::uint32_t slot = 1; slot <= kSlotsTried; ++slot) {
      const uabi::ProcessAddress peer{.node = node, .slot = slot};
      if (peer != self && !victims.contains(peer)) {
        static_cast<void>(!control_.send(uabi::OpenLane{.peer = peer}));
      }
    }
    pump();
  }
}

void Liar::pump() {
  while (control_) {
    auto received = control_.receive();
    if (!received) {
      if (received.error().code != ErrorCode::TryAgain) {
        detach();
      }
      return;
    }
    if (const auto* lane = received->message.get_if<uabi::Lane>()) {
      take_lane(*lane, received->descriptors);
    } else if (const auto* closed = received->message.get_if<uabi::LaneClosed>()) {
      victims.erase(closed->peer);
    }
  }
}

void Liar::take_lane(const uabi::Lane& lane, std::vector<os::UniqueFd>& descriptors) {
  auto memory = os::map_shared(descriptors[0], os::Protection::ReadWrite, host::kPairMemoryBytes,
                               host::kPairMemoryBytes);
  auto page = os::map_shared(descriptors[1], os::Protection::ReadWrite, host::kAttentionPageBytes,
                             host::kAttentionPageBytes);
  if (!memory || !page) {
    return;
  }
  Victim& victim = victims[lane.peer];
  victim.address = lane.peer;
  victim.file = std::move(descriptors[0]);
  victim.page_file = std::move(descriptors[1]);
  victim.memory = std::move(*memory);
  victim.page = std::move(*page);
  victim.side = lane.side;
  for (std::uint32_t index = 0; index < host::kLanesPerPair; ++index) {
    victim.ends[index] =
        ring::lane_ends(host::lane_rings(victim.memory.bytes(), index), host::kLaneShape,
                        lane.side == 0 ? ring::LaneSide::A : ring::LaneSide::B);
  }
}

Lid Liar::lid_of(std::uint32_t node) const {
  return view->port(view->node(fabric::NodeIndex{node}).first_port).lid;
}

Gid Liar::gid_of(std::uint32_t node) const {
  return view->gids(view->port(view->node(fabric::NodeIndex{node}).first_port)).front();
}

std::uint32_t Liar::somebody_else(std::uint32_t than) const {
  for (std::uint32_t node = 0; node < view->nodes().size(); ++node) {
    if (node != self.node && node != than) {
      return node;
    }
  }
  return than;
}

hca::PacketHeader Liar::honest(const Victim& victim, wire::Opcode opcode) {
  hca::PacketHeader header;
  header.opcode = header.last_opcode = opcode;
  header.path_mtu_bytes = 1024;
  header.pkey = kDefaultPKey;
  header.slid = lid_of(self.node);
  header.dlid = lid_of(victim.address.node);
  header.dest_qp = Qpn{first_qpn_of(victim.address.slot).value() +
                       static_cast<std::uint32_t>(random.below(kQpsTried))};
  header.psn = Psn{static_cast<std::uint32_t>(random())};
  if (opcode == wire::Opcode::UdSendOnly) {
    header.extension.deth.qkey = QKey{0x1111'1111};
    header.extension.deth.src_qp = first_qpn_of(self.slot);
  }
  return header;
}

bool Liar::put(Victim& victim, hca::Flow flow, const hca::PacketHeader& header,
               std::size_t payload_bytes) {
  std::array<std::byte, hca::kMaxRecordHeaderBytes> encoded;
  const std::size_t header_bytes = hca::encode_record_header(header, encoded);
  ring::Producer<>& out =
      flow == hca::Flow::Request ? victim.any(random).request_out : victim.any(random).response_out;
  const auto room = out.reserve(header_bytes + payload_bytes);
  if (room.empty()) {
    return false;
  }
  copy_bytes(room, ByteSpan{encoded}.first(header_bytes));
  out.commit();
  ++done;
  return true;
}

/// Rings more bells than are ours: among them is the one of this lane, wherever the victim keeps
/// it.
void Liar::wake(Victim& victim) {
  constexpr std::uint32_t kDoorbells = 64;
  for (std::uint32_t doorbell = 0; doorbell < kDoorbells; ++doorbell) {
    victim.attention().rung.add(doorbell);
  }
  victim.attention().wake.fetch_add(1);
  os::futex_wake(victim.attention().wake);
}

}  // namespace weft::hostile
