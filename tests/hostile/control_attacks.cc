// Lies to the daemon.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <vector>

#include "liar.h"

namespace weft::hostile {
namespace {

constexpr int kBurst = 512;  // messages before the daemon's answers are read

/// Bytes as they are, with any descriptors.
bool send_raw(const host::ControlSocket& socket, ByteSpan bytes, std::span<const int> descriptors) {
  std::vector<std::byte> control(CMSG_SPACE(descriptors.size_bytes()));
  iovec part{.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
  }
  return sendmsg(socket.fd(), &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

/// A program that was thrown out comes back.
void stay(Liar& liar) {
  if (!liar.is_attached()) {
    liar.attach();
  }
}

template <class Make>
void burst(Liar& liar, Make make) {
  stay(liar);
  for (int i = 0; i < kBurst; ++i) {
    if (!liar.control_.send(make())) {
      break;  // the daemon does not read us now
    }
    ++liar.done;
  }
  liar.pump();
}

void nobodies(Liar& liar) {
  burst(liar, [&] {
    const auto any = static_cast<std::uint32_t>(liar.random());
    return uabi::Message{uabi::OpenLane{.peer = {.node = any >> 16, .slot = 200 + any % 800}}};
  });
}

void groups(Liar& liar) {
  const std::uint32_t port = liar.view->node(fabric::NodeIndex{liar.self.node}).first_port.value();
  burst(liar, [&] {
    const Lid mlid{0xC001 + static_cast<std::uint32_t>(liar.random.below(64))};
    const Gid mgid{0xFF12'0000'0000'0000, Guid{liar.random.below(64)}};
    return liar.random.below(2) == 0
               ? uabi::Message{uabi::JoinGroup{.port = port, .mlid = mlid, .mgid = mgid}}
               : uabi::Message{uabi::LeaveGroup{.port = port, .mlid = mlid, .mgid = mgid}};
  });
}

void ports_of_others(Liar& liar) {
  burst(liar, [&] {
    const auto any = static_cast<std::uint32_t>(liar.random());
    return uabi::Message{
        uabi::JoinGroup{.port = any % 2 == 0 ? any : any % 16, .mlid = Lid{any >> 8}, .mgid = {}}
    };
  });
}

/// Random bytes, too long, cut off in the middle, or none at all.
void malformed(Liar& liar) {
  const host::ControlSocket socket = liar.connect();
  if (!socket) {
    return;
  }
  std::vector<std::byte> bytes = uabi::encode(uabi::Hello{.host = "h1"});
  switch (liar.random.below(4)) {
    case 0:
      bytes.resize(liar.random.below(300));
      for (std::byte& octet : bytes) {
        octet = static_cast<std::byte>(liar.random());
      }
      break;
    case 1:
      bytes.resize(uabi::kMaxMessageBytes + 1 + liar.random.below(100'000));
      break;
    case 2:
      bytes.resize(liar.random.below(bytes.size()));
      break;
    default:
      bytes.at(liar.random.below(bytes.size())) = static_cast<std::byte>(liar.random());
  }
  send_raw(socket, bytes, {});
  static_cast<void>(socket.receive(Duration::milliseconds(50)));
  ++liar.done;
}

/// Good messages with descriptors that nobody asked for.
void descriptors(Liar& liar) {
  const host::ControlSocket socket = liar.connect();
  if (!socket) {
    return;
  }
  const os::UniqueFd file{open("/dev/null", O_RDONLY | O_CLOEXEC)};
  const std::vector<int> many(1 + liar.random.below(253), file.get());
  send_raw(socket, uabi::encode(uabi::Hello{.host = "h1"}), many);
  static_cast<void>(socket.receive(Duration::milliseconds(50)));
  ++liar.done;
}

/// What only the daemon says.
void daemons_words(Liar& liar) {
  const host::ControlSocket socket = liar.connect();
  static_cast<void>(!socket.send(uabi::LaneClosed{
      .peer = {.node = 0, .slot = 1}
  }));
  static_cast<void>(socket.receive(Duration::milliseconds(50)));
  ++liar.done;
}

void connections(Liar& liar) {
  std::vector<host::ControlSocket> open;
  for (int i = 0; i < 900; ++i) {
    if (auto socket = liar.connect(); socket) {
      open.push_back(std::move(socket));
      ++liar.done;
    }
  }
}

/// Long answers that nobody reads.
void queries(Liar& liar) {
  static host::ControlSocket socket = liar.connect();
  for (int i = 0; i < kBurst; ++i) {
    if (socket.send(uabi::Query{.kind = uabi::QueryKind::Counters})) {
      ++liar.done;
    }
  }
}

/// Comes and goes.
void places(Liar& liar) {
  stay(liar);
  liar.detach();
  ++liar.done;
}

/// Complaints about an innocent.
void accusations(Liar& liar, Victim& victim) {
  burst(liar, [&] {
    const auto any = static_cast<std::uint32_t>(liar.random());
    return uabi::Message{
        uabi::ReportPeer{.peer = victim.address,
                         .what = static_cast<uabi::RecordFault>(1 + any % uabi::kRecordFaultCount),
                         .count = liar.random()}
    };
  });
}

[[nodiscard]] uabi::ProcessAddress anybody(Liar& liar) {
  return {.node = static_cast<std::uint32_t>(liar.random.below(liar.view->nodes().size())),
          .slot = static_cast<std::uint32_t>(liar.random.below(8))};
}

/// Words about XRC domains that it does not have open: domains, slots and QPNs as they come.
void xrc_words(Liar& liar) {
  burst(liar, [&] {
    const auto domain = static_cast<std::uint32_t>(liar.random.below(4));
    const Qpn target{static_cast<std::uint32_t>(liar.random.below(1U << 24))};
    switch (liar.random.below(4)) {
      case 0: {
        uabi::XrcRelay word;
        word.peer = anybody(liar);
        word.domain = domain;
        word.action = static_cast<uabi::XrcMessage>(1 + liar.random.below(5));
        word.serial = static_cast<std::uint32_t>(liar.random.below(64));
        word.target = target;
        word.proxy = Qpn{target.value() ^ 1};
        return uabi::Message{word};
      }
      case 1: {
        uabi::XrcTargetRequest question;
        question.peer = anybody(liar);
        question.domain = domain;
        question.verb = static_cast<uabi::TargetVerb>(1 + liar.random.below(4));
        question.target = target;
        question.modification.mask =
            verbs::QpAttributeMask::from_bits(static_cast<std::uint32_t>(liar.random()));
        question.modification.attributes.state = static_cast<verbs::QpState>(liar.random.below(7));
        return uabi::Message{question};
      }
      case 2:
        return uabi::Message{
            uabi::XrcTargetAnswer{.peer = anybody(liar),
                                  .domain = domain,
                                  .serial = domain,
                                  .error = 0,
                                  .reason = "as I say",
                                  .attributes = {}}
        };
      default:
        return uabi::Message{
            uabi::XrcTargetEvent{.peer = anybody(liar),
                                 .domain = domain,
                                 .target = target,
                                 .event = verbs::AsyncEventType::QpFatal}
        };
    }
  });
}

/// Words about devices that it has not imported, as their owner and as an importer; and devices of
/// files that are another's.
void device_words(Liar& liar) {
  burst(liar, [&] {
    const auto device = static_cast<std::uint32_t>(liar.random.below(16));
    switch (liar.random.below(3)) {
      case 0: {
        uabi::ObjectRequest question;
        question.peer = anybody(liar);
        question.device = device;
        question.inode = liar.random.below(100'000);
        question.verb = static_cast<uabi::ImportVerb>(1 + liar.random.below(6));
        question.handle = static_cast<std::uint32_t>(liar.random.below(4));
        return uabi::Message{question};
      }
      case 1: {
        uabi::ObjectAnswer answer;
        answer.peer = anybody(liar);
        answer.device = device;
        answer.serial = static_cast<std::uint32_t>(liar.random.below(64));
        answer.key = static_cast<std::uint32_t>(liar.random());
        answer.length = liar.random();
        return uabi::Message{answer};
      }
      default:
        return uabi::Message{uabi::LeaveDevice{.device = device}};
    }
  });
}

/// Violations of keys that never were, at its own port and at others' or none.
void bad_keys(Liar& liar) {
  const std::uint32_t own = liar.view->node(fabric::NodeIndex{liar.self.node}).first_port.value();
  burst(liar, [&] {
    const auto any = static_cast<std::uint32_t>(liar.random());
    uabi::BadKeys report;
    report.port = liar.random.below(2) == 0 ? own : any % 16;
    report.is_qkey = liar.random.below(2) == 0;
    report.count = liar.random.below(2) == 0 ? any : 1;
    report.source = Lid{static_cast<std::uint32_t>(liar.random())};
    report.destination = Lid{static_cast<std::uint32_t>(liar.random())};
    report.sl = static_cast<std::uint8_t>(any);
    constexpr std::uint32_t kQpns = 0xFF'FFFF;  // others are malformed, which is another attack
    report.source_qp = Qpn{any & kQpns};
    report.destination_qp = Qpn{~any & kQpns};
    report.source_gid = Gid{liar.random(), Guid{liar.random()}};
    report.key = any;
    return uabi::Message{report};
  });
}

/// Random numbers as counters.
void counters(Liar& liar) {
  stay(liar);
  auto page =
      os::map_shared(liar.counters_file, os::Protection::ReadWrite, 1, std::size_t{1} << 30);
  if (page) {
    const auto bytes = page->bytes();
    for (std::size_t at = 0; at + sizeof(std::uint64_t) <= bytes.size();
         at += sizeof(std::uint64_t)) {
      const std::uint64_t word = liar.random.below(4) == 0 ? liar.random() : liar.random.below(16);
      std::memcpy(bytes.data() + at, &word, sizeof word);
    }
    ++liar.done;
  }
  liar.pump();
}

constexpr std::array kAttacks{
    Attack{.name = "nobodies", .act_alone = nobodies},
    Attack{.name = "groups", .act_alone = groups},
    Attack{.name = "ports-of-others", .act_alone = ports_of_others},
    Attack{.name = "malformed", .act_alone = malformed, .attaches = false},
    Attack{.name = "descriptors", .act_alone = descriptors, .attaches = false},
    Attack{.name = "daemons-words", .act_alone = daemons_words, .attaches = false},
    Attack{.name = "connections", .act_alone = connections, .attaches = false},
    Attack{.name = "queries", .act_alone = queries, .attaches = false},
    Attack{.name = "places", .act_alone = places},
    Attack{.name = "accusations", .act = accusations},
    Attack{.name = "xrc-words", .act_alone = xrc_words},
    Attack{.name = "device-words", .act_alone = device_words},
    Attack{.name = "bad-keys", .act_alone = bad_keys},
    Attack{.name = "counters", .act_alone = counters},
};

}  // namespace

std::span<const Attack> control_attacks() { return kAttacks; }

}  // namespace weft::hostile
