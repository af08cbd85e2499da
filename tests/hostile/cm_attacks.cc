// A program that sends what no connection manager should believe, by umad, to the host that it is
// set on; cm.py runs it beside live connections.
//
//   weft_hostile_cm ATTACK LID GUID SERVICE COUNT
//
// It is its own host's connection manager while it runs, so that it hears the answers. At its end
// it says what came: `answered REJ-3 17 REJ-8 2 DREP 5`.

#include <infiniband/umad.h>
#include <infiniband/umad_types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "cm/messages.h"
#include "wire/cm/dreq.h"
#include "wire/cm/rdma_cm_header.h"
#include "wire/cm/rej.h"
#include "wire/cm/rep.h"
#include "wire/cm/req.h"

namespace {

using weft::mad::MadBytes;
using weft::wire::CmAttribute;

constexpr int kMaxWaiting = 64;                         // sent without a look at what came
constexpr int kLastAnswersMs = 1'000;                   // how long the last ones may take
constexpr std::uint64_t kMine = 0x0000'000A'0000'0000;  // transaction IDs

/// 127.77.0.1, which the listeners are bound to.
constexpr std::array kAddressOfTarget{std::byte{127}, std::byte{77}, std::byte{0}, std::byte{1}};

void require(bool condition, const char* what) {
  if (!condition) {
    std::perror(what);
    std::exit(3);
  }
}

struct Target {
  unsigned lid{};
  std::uint64_t guid{};  ///< of its port
  std::uint64_t service{};
};

class Liar {
 public:
  Liar(const Target& target, std::uint64_t seed) : random_(seed), target_(target) {
    require(umad_init() == 0, "umad_init");
    port_ = umad_open_port("weft0", 1);
    require(port_ >= 0, "umad_open_port");
    std::array<long, 2> methods{};
    methods[0] = std::bit_cast<long>(1UL << UMAD_METHOD_SEND);
    agent_ = umad_register(port_, UMAD_CLASS_CM, weft::wire::kCmClassVersion, 0, methods.data());
    require(agent_ >= 0, "umad_register");
    require(umad_get_port("weft0", 1, &own_) == 0, "umad_get_port");
  }

  [[nodiscard]] weft::Random& random() { return random_; }
  [[nodiscard]] std::uint32_t word() { return static_cast<std::uint32_t>(random_()); }

  /// One that its receiver would take.
  [[nodiscard]] weft::wire::Req request() {
    weft::wire::Req req;
    req.local_communication_id = word();
    req.service_id = target_.service;
    req.local_ca_guid = weft::Guid{random_()};
    req.local_qpn = weft::Qpn{word() & 0xFF'FFFF};
    req.starting_psn = weft::Psn{word() & 0xFF'FFFF};
    req.remote_cm_response_timeout = req.local_cm_response_timeout = 10;
    req.max_cm_retries = 1;
    req.retry_count = 7;
    req.pkey = weft::kDefaultPKey;
    req.path_mtu = 4;
    const weft::Guid guid{__builtin_bswap64(own_.port_guid)};
    req.primary.local_lid = weft::Lid{own_.base_lid};
    req.primary.remote_lid = weft::Lid{target_.lid};
    req.primary.local_gid = {weft::kDefaultGidPrefix, guid};
    req.primary.remote_gid = {weft::kDefaultGidPrefix, weft::Guid{target_.guid}};
    req.primary.is_subnet_local = true;
    req.primary.packet_rate = 3;
    req.primary.local_ack_timeout = 10;
    weft::wire::RdmaCmHeader header{.ip_version = 4};
    std::ranges::copy(kAddressOfTarget, header.destination_address.end() - kAddressOfTarget.size());
    std::ranges::copy(weft::wire::pack(header), req.private_data.begin());
    return req;
  }

  template <class Message>
  [[nodiscard]] MadBytes mad(CmAttribute attribute, const Message& message) {
    return weft::cm::make_mad(attribute, kMine | word(), message);
  }

  /// False: it was refused, because there is no such MAD or too many were sent.
  bool send(const MadBytes& bytes, std::size_t length) {
    std::vector<std::byte> buffer(umad_size() + std::max(length, bytes.size()));
    umad_set_addr(buffer.data(), static_cast<int>(target_.lid), 1, 0, static_cast<int>(UMAD_QKEY));
    std::memcpy(static_cast<std::byte*>(umad_get_mad(buffer.data())), bytes.data(), bytes.size());
    const bool is_sent =
        umad_send(port_, agent_, buffer.data(), static_cast<int>(length), 0, 0) == 0;
    sent_ += is_sent ? 1 : 0;
    if (++waiting_ >= kMaxWaiting) {
      take_answers(0);
      waiting_ = 0;
    }
    return is_sent;
  }
  bool send(const MadBytes& bytes) { return send(bytes, bytes.size()); }

  void take_answers(int wait_limit_ms) {
    std::vector<std::byte> buffer(umad_size() + weft::wire::kMadBytes);
    for (;;) {
      int length = weft::wire::kMadBytes;
      if (umad_recv(port_, buffer.data(), &length, wait_limit_ms) < 0) {
        return;
      }
      if (umad_status(buffer.data()) != 0) {
        continue;  // one of its own that could not be sent
      }
      MadBytes bytes{};
      std::memcpy(bytes.data(), umad_get_mad(buffer.data()), bytes.size());
      take(bytes);
    }
  }

  [[nodiscard]] const std::vector<MadBytes>& replies() const { return replies_; }

  void say() const {
    std::printf("sent %u answered", sent_);
    for (const auto& [what, count] : answers_) {
      std::printf(" %s %u", what.c_str(), count);
    }
    std::puts("");
    std::fflush(stdout);
  }

 private:
  void take(const MadBytes& bytes) {
    const auto attribute = static_cast<CmAttribute>(weft::cm::header_of(bytes).attribute_id);
    std::string what{weft::wire::name_of(attribute)};
    if (attribute == CmAttribute::Rej) {
      const auto rej = weft::cm::message_of<weft::wire::Rej>(bytes);
      what += "-" + std::to_string(static_cast<unsigned>(rej.reason));
    } else if (attribute == CmAttribute::Rep && replies_.size() < kMaxWaiting) {
      replies_.push_back(bytes);
    }
    ++answers_[what];
  }

  weft::Random random_;
  Target target_;
  int port_{-1};
  int agent_{-1};
  umad_port_t own_{};
  unsigned sent_{};
  int waiting_{};
  std::map<std::string, unsigned> answers_;
  std::vector<MadBytes> replies_;
};

/// Of every attribute, of every length that a program can give.
void lengths(Liar& liar, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    MadBytes bytes = liar.mad(CmAttribute::Req, liar.request());
    bytes[17] = static_cast<std::byte>(0x10 + liar.random().below(12));  // an attribute, or none
    liar.send(bytes, liar.random().below(2 * weft::wire::kMadBytes));
  }
}

/// Of a MAD with a REQ: the local CM response timeout with the retry count, and the CM retries
/// (IBTA vol 1 §12.6.5). A peer may ask for many minutes by them, and is given them.
constexpr std::array<std::size_t, 2> kTimesOfReq{24 + 47, 24 + 51};

/// REQs whose fields mean nothing, and random octets under the header; but no REQ asks for longer
/// than the test waits.
void inconsistent(Liar& liar, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    MadBytes bytes = liar.mad(CmAttribute::Req, liar.request());
    bytes[17] = static_cast<std::byte>(0x10 + liar.random().below(12));
    const bool is_all = liar.random().chance(1, 2);
    for (std::size_t at = 24; at < bytes.size(); ++at) {
      const bool is_kept = std::ranges::find(kTimesOfReq, at) != kTimesOfReq.end();
      if (!is_kept && (is_all || liar.random().chance(1, 16))) {
        bytes[at] = static_cast<std::byte>(liar.random()());
      }
    }
    liar.send(bytes);
  }
}

/// REJ, DREQ, DREP, RTU and REP for connections of others, whose ids are guessed.
void spoof(Liar& liar, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    const std::uint32_t mine = liar.word();
    const std::uint32_t theirs = liar.random().chance(1, 2) ? liar.word() : i;
    liar.send(liar.mad(CmAttribute::Rej,
                       weft::wire::Rej{.local_communication_id = mine,
                                       .remote_communication_id = theirs,
                                       .reason = weft::wire::RejectReason::StaleConnection}));
    liar.send(liar.mad(CmAttribute::Dreq, weft::wire::Dreq{.local_communication_id = mine,
                                                           .remote_communication_id = theirs}));
    liar.send(liar.mad(CmAttribute::Drep, weft::wire::Drep{.local_communication_id = mine,
                                                           .remote_communication_id = theirs}));
    liar.send(liar.mad(CmAttribute::Rtu, weft::wire::Rtu{.local_communication_id = mine,
                                                         .remote_communication_id = theirs}));
    liar.send(liar.mad(CmAttribute::Rep, weft::wire::Rep{.local_communication_id = mine,
                                                         .remote_communication_id = theirs}));
  }
}

void flood(Liar& liar, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    liar.send(liar.mad(CmAttribute::Req, liar.request()));
  }
}

/// One REQ again and again, one that claims another QP of it, and the RTU and DREQ of REPs that
/// came, again and again.
void replay(Liar& liar, unsigned count) {
  const weft::wire::Req request = liar.request();
  const MadBytes first = liar.mad(CmAttribute::Req, request);
  for (unsigned i = 0; i < count; ++i) {
    liar.send(first);
    if (i % 8 == 0) {
      weft::wire::Req other = request;
      other.local_qpn = weft::Qpn{liar.word() & 0xFF'FFFF};
      liar.send(liar.mad(CmAttribute::Req, other));
      liar.take_answers(1);
    }
    if (liar.replies().empty()) {
      continue;
    }
    const MadBytes& reply = liar.replies()[liar.random().below(liar.replies().size())];
    const auto rep = weft::cm::message_of<weft::wire::Rep>(reply);
    liar.send(reply);
    liar.send(liar.mad(CmAttribute::Rtu,
                       weft::wire::Rtu{.local_communication_id = rep.remote_communication_id,
                                       .remote_communication_id = rep.local_communication_id}));
    if (i > count / 2) {
      liar.send(liar.mad(CmAttribute::Dreq,
                         weft::wire::Dreq{.local_communication_id = rep.remote_communication_id,
                                          .remote_communication_id = rep.local_communication_id,
                                          .remote_qpn = rep.local_qpn}));
    }
  }
}

const std::map<std::string_view, std::function<void(Liar&, unsigned)>> kAttacks = {
    {"lengths",  lengths     },
    {"nonsense", inconsistent},
    {"spoof",    spoof       },
    {"flood",    flood       },
    {"replay",   replay      },
};

}  // namespace

int main(int count, char** arguments) {
  const auto attack = count == 6 ? kAttacks.find(arguments[1]) : kAttacks.end();
  if (attack == kAttacks.end()) {
    std::fputs("weft_hostile_cm ATTACK LID GUID SERVICE COUNT\n", stderr);
    return 2;
  }
  const Target target{.lid = static_cast<unsigned>(std::atoi(arguments[2])),
                      .guid = std::strtoull(arguments[3], nullptr, 0),
                      .service = std::strtoull(arguments[4], nullptr, 0)};
  Liar liar{target, static_cast<std::uint64_t>(getpid())};
  std::printf("pid %d\n", getpid());
  std::fflush(stdout);
  attack->second(liar, static_cast<unsigned>(std::atoi(arguments[5])));
  liar.take_answers(kLastAnswersMs);
  liar.say();
}
