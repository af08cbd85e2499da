// One of several programs, each on a host of its own, that ask SA for paths and connect to each
// other in all directions at once, and use the same numbers: each transaction ID is 7, and
// communication IDs count from 1. Whoever gets another's MAD takes it for its own, unless what lies
// between keeps the hosts apart; so every MAD and every message says who sent it to whom.
//
//   weft_equal_ids FOLDER INDEX LID/GID...
//
// The places are those of all programs, in one order; INDEX is its own. They begin together, by
// files in FOLDER, and each is its host's connection manager while it runs. At its end it says the
// numbers that it had, or what was wrong.

#include <arpa/inet.h>
#include <fmt/format.h>
#include <infiniband/umad.h>
#include <infiniband/umad_types.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "../crash/verbs_end.h"
#include "cm/messages.h"
#include "wire/cm/dreq.h"
#include "wire/cm/rej.h"
#include "wire/cm/rep.h"
#include "wire/cm/req.h"
#include "wire/mad/component_mask.h"
#include "wire/mad/path_record.h"
#include "wire/mad/sa_mad.h"

namespace {

using crash::require;
using weft::mad::MadBytes;
using weft::wire::CmAttribute;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kTransaction = 7;
constexpr std::uint64_t kService = 0x1000;
constexpr std::chrono::seconds kPatience{40};           // policy, for each phase
constexpr std::chrono::milliseconds kRepeatAfter{500};  // policy: of a message without an answer
constexpr std::size_t kMessageBytes = 16;

struct Place {
  unsigned lid{};
  weft::Gid gid{};
};

template <class... Values>
[[noreturn]] void wrong(fmt::format_string<Values...> format, Values&&... values) {
  fmt::print("{}\n", fmt::format(format, std::forward<Values>(values)...));
  std::fflush(stdout);
  std::exit(4);
}

/// LID/GID.
[[nodiscard]] Place place_of(const std::string& text) {
  const std::size_t slash = text.find('/');
  std::array<std::byte, weft::Gid::kSize> octets{};
  require(slash != std::string::npos &&
              inet_pton(AF_INET6, text.c_str() + slash + 1, octets.data()) == 1,
          "a place");
  return {.lid = static_cast<unsigned>(std::atoi(text.c_str())), .gid = weft::Gid{octets}};
}

/// Who sends something to whom, in its first octets.
struct Names {
  unsigned from{};
  unsigned to{};
};
void put_names(std::span<std::byte> at, Names names) {
  at[0] = static_cast<std::byte>(names.from);
  at[1] = static_cast<std::byte>(names.to);
}
[[nodiscard]] Names names_at(std::span<const std::byte> at) {
  return {.from = std::to_integer<unsigned>(at[0]), .to = std::to_integer<unsigned>(at[1])};
}

enum class State : std::uint8_t { ReqSent, RepSent, Established, DreqSent, Closed };

/// One end of a connection.
struct Connection {
  bool is_active{};
  unsigned peer{};
  std::uint32_t local{};
  std::uint32_t remote{};  // the peer's ID, as it is on the wire
  State state{};
  ibv_qp* qp{};
  MadBytes waiting{};  // sent again until there is an answer
  Clock::time_point sent_at{};
  bool has_sent{};
  bool has_received{};

  [[nodiscard]] bool is_over() const { return state == State::Closed && has_sent && has_received; }
};

class Program {
 public:
  Program(std::string folder, unsigned own, std::vector<Place> places)
      : folder_(std::move(folder)),
        own_(own),
        places_(std::move(places)),
        end_(static_cast<int>(4 * places_.size())),
        memory_(4 * places_.size() * kMessageBytes),
        region_(end_.share(memory_)) {
    require(umad_init() == 0, "umad_init");
    port_ = umad_open_port("weft0", 1);
    require(port_ >= 0, "umad_open_port");
    std::array<long, 2> methods{};
    methods[0] = std::bit_cast<long>(1UL << UMAD_METHOD_SEND);
    cm_agent_ = umad_register(port_, UMAD_CLASS_CM, weft::wire::kCmClassVersion, 0, methods.data());
    sa_agent_ = umad_register(port_, UMAD_CLASS_SUBN_ADM, weft::wire::kSaClassVersion, 0, nullptr);
    require(cm_agent_ >= 0 && sa_agent_ >= 0, "umad_register");
    umad_port_t port{};
    require(umad_get_port("weft0", 1, &port) == 0, "umad_get_port");
    manager_lid_ = port.sm_lid;
  }

  void run() {
    wait_for_all("ready");
    for (unsigned peer = 0; peer < places_.size(); ++peer) {
      if (peer != own_) {
        ask_path(peer);
      }
    }
    for (unsigned peer = 0; peer < places_.size(); ++peer) {
      if (peer != own_) {
        ask_to_connect(peer);
      }
    }
    const Clock::time_point limit = Clock::now() + kPatience;
    while (!is_done()) {
      if (Clock::now() > limit) {
        wrong("{} of {} connections are not over in time", unfinished(), 2 * peers());
      }
      turn();
    }
    announce("done");
    while (!all_are("done") && Clock::now() < limit) {
      turn();  // others may repeat what they said
    }
    fmt::print("transaction {} communication IDs 1 to {}\n", kTransaction, connections_.size());
  }

 private:
  [[nodiscard]] std::size_t peers() const { return places_.size() - 1; }
  [[nodiscard]] std::size_t unfinished() const {
    const auto open =
        std::ranges::count_if(connections_, [](const Connection& each) { return !each.is_over(); });
    return 2 * peers() - connections_.size() + static_cast<std::size_t>(open);
  }
  [[nodiscard]] bool is_done() const { return unfinished() == 0; }

  // --- together
  [[nodiscard]] std::filesystem::path mark(const char* what, unsigned index) const {
    return std::filesystem::path{folder_} / (std::string{what} + "." + std::to_string(index));
  }
  void announce(const char* what) const { std::ofstream{mark(what, own_)} << what; }
  [[nodiscard]] bool all_are(const char* what) const {
    for (unsigned index = 0; index < places_.size(); ++index) {
      if (!std::filesystem::exists(mark(what, index))) {
        return false;
      }
    }
    return true;
  }
  void wait_for_all(const char* what) const {
    announce(what);
    const Clock::time_point limit = Clock::now() + kPatience;
    while (!all_are(what)) {
      if (Clock::now() > limit) {
        wrong("the others do not come");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
  }

  // --- SA
  void ask_path(unsigned peer) {
    weft::wire::PathRecord record;
    record.sgid = places_[own_].gid;
    record.dgid = places_[peer].gid;
    weft::wire::SaMad mad;
    mad.sa.header.method = weft::wire::MadMethod::Get;
    mad.sa.header.transaction_id = kTransaction;
    mad.sa.header.attribute_id = static_cast<std::uint16_t>(weft::wire::SaAttribute::PathRecord);
    mad.sa.component_mask = weft::wire::kComponent<weft::wire::PathRecord, "SGID"> |
                            weft::wire::kComponent<weft::wire::PathRecord, "DGID">;
    std::ranges::copy(weft::wire::pack(record), mad.data.begin());
    constexpr int kTimeoutMs = 1'000;
    constexpr int kRetries = 10;
    send(manager_lid_, weft::wire::pack(mad), sa_agent_, kTimeoutMs, kRetries);
    const Clock::time_point limit = Clock::now() + kPatience;
    while (!path_is_known_) {
      if (Clock::now() > limit) {
        wrong("no path to {}", peer);
      }
      asked_ = peer;
      turn();
    }
    path_is_known_ = false;
  }
  void take_path(const MadBytes& bytes) {
    const auto mad = weft::wire::unpack<weft::wire::SaMad>(bytes);
    const auto record = weft::wire::unpack<weft::wire::PathRecord>(
        std::span{mad.data}.first<weft::wire::kSizeOf<weft::wire::PathRecord>>());
    const auto id = static_cast<std::uint32_t>(mad.sa.header.transaction_id);
    if (mad.sa.header.status != 0 || id != kTransaction) {
      wrong("an answer of SA with status {:#x} and transaction {}", mad.sa.header.status, id);
    }
    if (record.sgid != places_[own_].gid || record.dgid != places_[asked_].gid ||
        record.dlid != weft::Lid{places_[asked_].lid}) {
      wrong("an answer of SA about another's path, to LID {}", record.dlid.value());
    }
    path_is_known_ = true;
  }

  // --- MADs
  void send(unsigned lid, const MadBytes& bytes, int agent, int timeout_ms, int retries) {
    std::vector<std::byte> buffer(umad_size() + bytes.size());
    umad_set_addr(buffer.data(), static_cast<int>(lid), 1, 0, static_cast<int>(UMAD_QKEY));
    std::memcpy(umad_get_mad(buffer.data()), bytes.data(), bytes.size());
    require(umad_send(port_, agent, buffer.data(), static_cast<int>(bytes.size()), timeout_ms,
                      retries) == 0,
            "umad_send");
  }
  template <class Message>
  void tell(Connection& to, CmAttribute attribute, Message said) {
    put_names(said.private_data, {.from = own_, .to = to.peer});
    to.waiting = weft::cm::make_mad(attribute, kTransaction, said);
    repeat(to);
  }
  void repeat(Connection& connection) {
    connection.sent_at = Clock::now();
    send(places_[connection.peer].lid, connection.waiting, cm_agent_, 0, 0);
  }

  /// What has come, and what must be said again.
  void turn() {
    std::vector<std::byte> buffer(umad_size() + weft::wire::kMadBytes);
    int length = weft::wire::kMadBytes;
    constexpr int kWaitMs = 5;
    if (const int agent = umad_recv(port_, buffer.data(), &length, kWaitMs); agent >= 0) {
      MadBytes bytes{};
      std::memcpy(bytes.data(), umad_get_mad(buffer.data()), bytes.size());
      if (umad_status(buffer.data()) != 0) {
        wrong("a MAD could not be sent, or has no answer: {}", umad_status(buffer.data()));
      }
      if (agent == sa_agent_) {
        take_path(bytes);
      } else {
        take_message(bytes);
      }
    }
    take_completions();
    for (Connection& connection : connections_) {
      const bool is_waiting = connection.state == State::ReqSent ||
                              connection.state == State::RepSent ||
                              connection.state == State::DreqSent;
      if (is_waiting && Clock::now() - connection.sent_at > kRepeatAfter) {
        repeat(connection);
      }
    }
  }

  // --- connections
  Connection& make_connection(unsigned peer, bool is_active) {
    Connection& made = connections_.emplace_back();
    made.is_active = is_active;
    made.peer = peer;
    made.local = static_cast<std::uint32_t>(connections_.size());
    made.qp = end_.make_qp(1);
    const std::size_t slot = connections_.size() - 1;
    ibv_sge sge = sge_of(2 * slot + 1);
    ibv_recv_wr wr{.wr_id = 2 * slot + 1, .next = nullptr, .sg_list = &sge, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    require(ibv_post_recv(made.qp, &wr, &bad) == 0, "ibv_post_recv");
    return made;
  }
  [[nodiscard]] std::span<std::uint8_t> message_at(std::size_t number) {
    return std::span{memory_}.subspan(number * kMessageBytes, kMessageBytes);
  }
  [[nodiscard]] ibv_sge sge_of(std::size_t number) {
    return {.addr = crash::number_of(message_at(number).data()),
            .length = kMessageBytes,
            .lkey = region_->lkey};
  }
  void ask_to_connect(unsigned peer) {
    Connection& connection = make_connection(peer, true);
    weft::wire::Req req;
    req.local_communication_id = connection.local;
    req.service_id = kService;
    req.local_qpn = weft::Qpn{connection.qp->qp_num};
    req.remote_cm_response_timeout = req.local_cm_response_timeout = 18;
    req.max_cm_retries = 15;
    req.retry_count = 7;
    req.pkey = weft::kDefaultPKey;
    req.path_mtu = static_cast<std::uint8_t>(IBV_MTU_1024);
    req.primary.local_lid = weft::Lid{places_[own_].lid};
    req.primary.remote_lid = weft::Lid{places_[peer].lid};
    req.primary.local_gid = places_[own_].gid;
    req.primary.remote_gid = places_[peer].gid;
    req.primary.is_subnet_local = true;
    req.primary.packet_rate = 3;  // 10 Gb/s
    req.primary.local_ack_timeout = 14;
    connection.state = State::ReqSent;
    tell(connection, CmAttribute::Req, req);
  }

  void take_message(const MadBytes& bytes) {
    const auto attribute = static_cast<CmAttribute>(weft::cm::header_of(bytes).attribute_id);
    switch (attribute) {
      case CmAttribute::Req:
        return take_req(weft::cm::message_of<weft::wire::Req>(bytes));
      case CmAttribute::Rep:
        return take_rep(weft::cm::message_of<weft::wire::Rep>(bytes));
      case CmAttribute::Rtu:
        return take_rtu(weft::cm::message_of<weft::wire::Rtu>(bytes));
      case CmAttribute::Dreq:
        return take_dreq(weft::cm::message_of<weft::wire::Dreq>(bytes));
      case CmAttribute::Drep:
        return take_drep(weft::cm::message_of<weft::wire::Drep>(bytes));
      default:
        wrong("a CM message {:#x}", static_cast<unsigned>(attribute));
    }
  }

  /// The connection that a message other than a REQ is about, of whom it says that it is.
  template <class Message>
  [[nodiscard]] Connection& find(std::string_view what, const Message& said) {
    const Names names = names_at(said.private_data);
    const auto found =
        std::ranges::find(connections_, said.remote_communication_id, &Connection::local);
    if (names.to != own_ || found == connections_.end() || found->peer != names.from) {
      wrong("a {} from {} to {} about communication ID {} has come to {}", what, names.from,
            names.to, said.remote_communication_id, own_);
    }
    if (found->remote != 0 && found->remote != said.local_communication_id) {
      wrong("a {} from {} with communication ID {}, not {}", what, names.from,
            said.local_communication_id, found->remote);
    }
    return *found;
  }

  void take_req(const weft::wire::Req& req) {
    const Names names = names_at(req.private_data);
    if (names.to != own_ || names.from >= places_.size() ||
        req.primary.remote_gid != places_[own_].gid ||
        req.primary.local_gid != places_[names.from].gid) {
      wrong("a REQ from {} to {} has come to {}", names.from, names.to, own_);
    }
    const auto known = std::ranges::find_if(connections_, [&](const Connection& each) {
      return !each.is_active && each.peer == names.from;
    });
    if (known != connections_.end()) {
      return repeat(*known);
    }
    Connection& connection = make_connection(names.from, false);
    connection.remote = req.local_communication_id;
    crash::End::connect(connection.qp,
                        {.lid = places_[names.from].lid, .qpn = req.local_qpn.value()});
    weft::wire::Rep rep;
    rep.local_communication_id = connection.local;
    rep.remote_communication_id = connection.remote;
    rep.local_qpn = weft::Qpn{connection.qp->qp_num};
    connection.state = State::RepSent;
    tell(connection, CmAttribute::Rep, rep);
  }
  void take_rep(const weft::wire::Rep& rep) {
    Connection& connection = find("REP", rep);
    if (connection.state != State::ReqSent) {
      if (connection.state == State::Established) {
        repeat(connection);
      }
      return;
    }
    connection.remote = rep.local_communication_id;
    crash::End::connect(connection.qp,
                        {.lid = places_[connection.peer].lid, .qpn = rep.local_qpn.value()});
    connection.state = State::Established;
    tell(connection, CmAttribute::Rtu,
         weft::wire::Rtu{.local_communication_id = connection.local,
                         .remote_communication_id = connection.remote});
    post(connection);
  }
  void take_rtu(const weft::wire::Rtu& rtu) {
    Connection& connection = find("RTU", rtu);
    if (connection.state == State::RepSent) {
      connection.state = State::Established;
      post(connection);
    }
  }
  void take_dreq(const weft::wire::Dreq& dreq) {
    Connection& connection = find("DREQ", dreq);
    if (dreq.remote_qpn != weft::Qpn{connection.qp->qp_num}) {
      wrong("a DREQ for QP {:#x}, not {:#x}", dreq.remote_qpn.value(), connection.qp->qp_num);
    }
    connection.state = State::Closed;
    tell(connection, CmAttribute::Drep,
         weft::wire::Drep{.local_communication_id = connection.local,
                          .remote_communication_id = connection.remote});
  }
  void take_drep(const weft::wire::Drep& drep) { find("DREP", drep).state = State::Closed; }

  /// The message over the connection.
  void post(Connection& connection) {
    const std::size_t slot = connection.local - 1;
    const auto octets = message_at(2 * slot);
    octets[0] = static_cast<std::uint8_t>(own_);
    octets[1] = static_cast<std::uint8_t>(connection.peer);
    octets[2] = connection.is_active ? 1 : 0;
    ibv_sge sge = sge_of(2 * slot);
    ibv_send_wr wr{};
    wr.wr_id = 2 * slot;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    require(ibv_post_send(connection.qp, &wr, &bad) == 0, "ibv_post_send");
  }
  void take_completions() {
    ibv_wc wc{};
    while (ibv_poll_cq(end_.cq, 1, &wc) == 1) {
      Connection& connection = connections_.at(wc.wr_id / 2);
      if (wc.status != IBV_WC_SUCCESS) {
        wrong("a completion of the connection with {}: {}", connection.peer,
              ibv_wc_status_str(wc.status));
      }
      if (wc.wr_id % 2 == 0) {
        connection.has_sent = true;
      } else {
        const auto octets = message_at(wc.wr_id);
        if (octets[0] != connection.peer || octets[1] != own_ ||
            (octets[2] == 1) == connection.is_active) {
          wrong("over the connection with {} a message from {} to {} has come", connection.peer,
                octets[0], octets[1]);
        }
        connection.has_received = true;
      }
      if (connection.is_active && connection.has_sent && connection.has_received) {
        connection.state = State::DreqSent;
        weft::wire::Dreq dreq;
        dreq.local_communication_id = connection.local;
        dreq.remote_communication_id = connection.remote;
        dreq.remote_qpn = peer_qpn(connection);
        tell(connection, CmAttribute::Dreq, dreq);
      }
    }
  }
  [[nodiscard]] static weft::Qpn peer_qpn(const Connection& connection) {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr init{};
    require(ibv_query_qp(connection.qp, &attributes, IBV_QP_DEST_QPN, &init) == 0, "ibv_query_qp");
    return weft::Qpn{attributes.dest_qp_num};
  }

  std::string folder_;
  unsigned own_;
  std::vector<Place> places_;
  crash::End end_;
  std::vector<std::uint8_t> memory_;
  ibv_mr* region_;
  int port_{-1};
  int cm_agent_{-1};
  int sa_agent_{-1};
  unsigned manager_lid_{};
  unsigned asked_{};  // the peer that SA is asked about
  bool path_is_known_{};
  std::deque<Connection> connections_;  // by local communication ID, from 1
};

}  // namespace

int main(int count, char** arguments) {
  if (count < 5) {
    std::fputs("weft_equal_ids FOLDER INDEX LID/GID...\n", stderr);
    return 2;
  }
  std::vector<Place> places;
  for (int i = 3; i < count; ++i) {
    places.push_back(place_of(arguments[i]));
  }
  const auto own = static_cast<unsigned>(std::atoi(arguments[2]));
  require(own < places.size(), "an index of the places");
  Program{arguments[1], own, std::move(places)}.run();
}
