// Lies in memory that is shared with another process.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "base/process_slot.h"
#include "liar.h"

namespace weft::hostile {
namespace {

using hca::Flow;
using wire::Opcode;

constexpr int kBurst = 256;  // records before the next victim has its turn

/// Puts many records of one kind, then rings the bell.
template <class Make>
void burst(Liar& liar, Victim& victim, Make make) {
  for (int i = 0; i < kBurst; ++i) {
    if (!make()) {
      break;
    }
  }
  liar.wake(victim);
}

/// Random bytes over the whole memory of the lane.
void garbage(Liar& liar, Victim& victim) {
  const auto bytes = victim.memory.bytes();
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= bytes.size();
       at += sizeof(std::uint64_t)) {
    const std::uint64_t word = liar.random();
    std::memcpy(bytes.data() + at, &word, sizeof word);
  }
  ++liar.done;
  liar.wake(victim);
}

/// Record lengths that no producer writes, at the front of a ring.
void lengths(Liar& liar, Victim& victim) {
  constexpr std::array<std::uint32_t, 6> kLies{0xFFFF'FFFF, 0xFFFF'FFFE, 0x8000'0000,
                                               1U << 16,    1U << 15,    40'000};
  const auto room = victim.any(liar.random).request_out.reserve(8);
  if (!room.empty()) {
    const std::uint32_t lie = kLies[liar.random.below(kLies.size())];
    std::memcpy(room.data() - ring::kRecordHeaderBytes, &lie, sizeof lie);
    ++liar.done;
  }
  liar.wake(victim);
}

/// Records of random bytes: unknown opcodes, impossible trains, fields beyond their width.
void records(Liar& liar, Victim& victim) {
  burst(liar, victim, [&] {
    const Flow flow = liar.random.below(2) == 0 ? Flow::Request : Flow::Response;
    auto& out = flow == Flow::Request ? victim.any(liar.random).request_out
                                      : victim.any(liar.random).response_out;
    const auto room = out.reserve(liar.random.below(300));
    if (room.data() == nullptr) {
      return false;
    }
    for (std::byte& octet : room) {
      octet = static_cast<std::byte>(liar.random());
    }
    out.commit();
    ++liar.done;
    return true;
  });
}

void source(Liar& liar, Victim& victim) {
  burst(liar, victim, [&] {
    auto header = liar.honest(victim, Opcode::RcSendOnly);
    header.slid = liar.lid_of(liar.somebody_else(victim.address.node));
    return liar.put(victim, Flow::Request, header, 16);
  });
}

void gid(Liar& liar, Victim& victim) {
  burst(liar, victim, [&] {
    auto header = liar.honest(victim, Opcode::UdSendOnly);
    header.has_grh = true;
    header.grh.sgid = liar.gid_of(liar.somebody_else(victim.address.node));
    header.grh.dgid = liar.gid_of(victim.address.node);
    return liar.put(victim, Flow::Request, header, 16);
  });
}

void destination(Liar& liar, Victim& victim) {
  burst(liar, victim, [&] {
    auto header = liar.honest(victim, Opcode::RcSendOnly);
    header.dlid = Lid{static_cast<std::uint32_t>(liar.random.below(0x1'0000))};
    return liar.put(victim, Flow::Request, header, 16);
  });
}

void pkey(Liar& liar, Victim& victim) {
  burst(liar, victim, [&] {
    auto header = liar.honest(victim, Opcode::UdSendOnly);
    header.pkey = PKey{0x8123};
    return liar.put(victim, Flow::Request, header, 16);
  });
}

void management(Liar& liar, Victim& victim) {
  burst(liar, victim, [&] {
    auto header = liar.honest(victim, Opcode::UdSendOnly);
    header.dest_qp = liar.random.below(2) == 0 ? kQp0 : kQp1;
    return liar.put(victim, Flow::Request, header, 256);
  });
}

void qpn(Liar& liar, Victim& victim) {
  burst(liar, victim, [&] {
    auto header = liar.honest(victim, Opcode::UdSendOnly);
    header.extension.deth.src_qp = first_qpn_of(victim.address.slot);
    return liar.put(victim, Flow::Request, header, 16);
  });
}

/// Requests, acknowledgements and refusals for connections between others, with every PSN.
void connection(Liar& liar, Victim& victim) {
  burst(liar, victim, [&] {
    auto header =
        liar.honest(victim, liar.random.below(2) == 0 ? Opcode::RcAcknowledge : Opcode::RcSendOnly);
    const bool is_request = header.opcode == Opcode::RcSendOnly;
    if (!is_request) {
      header.extension.response = {};
      header.extension.response.aeth.syndrome =
          wire::Syndrome{static_cast<std::uint8_t>(liar.random())};
    }
    return liar.put(victim, is_request ? Flow::Request : Flow::Response, header,
                    is_request ? 16 : 0);
  });
}

/// As many records as the ring takes, to QPs that nobody has.
void flood(Liar& liar, Victim& victim) {
  burst(liar, victim, [&] {
    auto header = liar.honest(victim, Opcode::UcSendOnly);
    header.dest_qp = Qpn{first_qpn_of(victim.address.slot).value() + 9'999};
    return liar.put(victim, Flow::Request, header, 0);
  });
}

/// Every word that one side writes for the other.
void positions(Liar& liar, Victim& victim) {
  const auto number = [&] {
    return static_cast<std::uint32_t>(liar.random.below(2) == 0 ? liar.random()
                                                                : liar.random.below(3));
  };
  const auto lane = static_cast<std::uint32_t>(liar.random.below(host::kLanesPerPair));
  for (std::size_t side = 0; side < 2; ++side) {
    victim.head(lane).attention[side].sleeping.store(number());
    victim.head(lane).wants_space[side].value.store(number());
  }
  const auto rings = host::lane_rings(victim.memory.bytes(), lane);
  std::size_t at = 0;
  for (const std::size_t capacity :
       {host::kLaneShape.request_capacity, host::kLaneShape.response_capacity,
        host::kLaneShape.request_capacity, host::kLaneShape.response_capacity}) {
    const std::uint32_t said = number();
    std::memcpy(rings.data() + at, &said, sizeof said);
    at += ring::ring_bytes(capacity) + ring::kStaggerBytes;
  }
  ++liar.done;
  liar.wake(victim);
}

void wakes(Liar& liar, Victim& victim) {
  for (int i = 0; i < kBurst; ++i) {
    liar.wake(victim);
  }
  ++liar.done;
}

/// Takes back the wakes of others, so that a sleeper misses them.
void lost_wakes(Liar& liar, Victim& victim) {
  for (int i = 0; i < 100 * kBurst; ++i) {
    const std::uint32_t seen = victim.attention().wake.load();
    victim.attention().wake.store(seen);
  }
  ++liar.done;
}

/// Whatever would pull shared memory away from under its users.
void seals(Liar& liar, Victim& victim) {
  const auto must_fail = [&](std::string_view what, bool worked) {
    ++liar.done;
    if (worked) {
      liar.broken = fmt::format("{} worked", what);
    }
  };
  for (const auto* file : {&victim.file, &victim.page_file, &liar.counters_file}) {
    must_fail("shrinking shared memory", ftruncate(file->get(), 0) == 0);
    must_fail("growing shared memory", ftruncate(file->get(), 1 << 30) == 0);
    must_fail("sealing shared memory", fcntl(file->get(), F_ADD_SEALS, F_SEAL_WRITE) == 0);
    must_fail("sealing shared memory against new mappings",
              fcntl(file->get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0);
    must_fail("punching a hole beyond the end", fallocate(file->get(), 0, 0, 1 << 30) == 0);
  }
  const int tables = liar.tables_file.get();
  must_fail("shrinking tables", ftruncate(tables, 0) == 0);
  must_fail("writing to tables", pwrite(tables, "x", 1, 0) > 0);
  must_fail("unsealing tables", fcntl(tables, F_ADD_SEALS, 0) == 0);
  void* const mapped = mmap(nullptr, 4'096, PROT_READ | PROT_WRITE, MAP_SHARED, tables, 0);
  must_fail("mapping tables to write", mapped != MAP_FAILED);
  void* const readable = mmap(nullptr, 4'096, PROT_READ, MAP_SHARED, tables, 0);
  must_fail("making tables writable",
            readable != MAP_FAILED && mprotect(readable, 4'096, PROT_READ | PROT_WRITE) == 0);
  if (readable != MAP_FAILED) {
    munmap(readable, 4'096);
  }
}

constexpr std::array kAttacks{
    Attack{.name = "garbage",     .act = garbage    },
    Attack{.name = "lengths",     .act = lengths    },
    Attack{.name = "records",     .act = records    },
    Attack{.name = "source",      .act = source     },
    Attack{.name = "gid",         .act = gid        },
    Attack{.name = "destination", .act = destination},
    Attack{.name = "pkey",        .act = pkey       },
    Attack{.name = "management",  .act = management },
    Attack{.name = "qpn",         .act = qpn        },
    Attack{.name = "connection",  .act = connection },
    Attack{.name = "flood",       .act = flood      },
    Attack{.name = "positions",   .act = positions  },
    Attack{.name = "wakes",       .act = wakes      },
    Attack{.name = "lost-wakes",  .act = lost_wakes },
    Attack{.name = "seals",       .act = seals      },
};

}  // namespace

std::span<const Attack> lane_attacks() { return kAttacks; }

}  // namespace weft::hostile
