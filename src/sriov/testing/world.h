#pragma once

// Two ports with many functions each, SA, and a network between them that loses, delays and
// repeats MADs, in virtual time. Functions ask SA, join groups, connect, resolve services, are
// killed, and move to the other port; SA restarts and falls silent. All functions use the same
// transaction and communication IDs. Each MAD carries, unseen by the ports, whom it is meant for.
//
// What must hold: a MAD reaches whom it is meant for and nobody else; none that is meant for a
// function that is there is dropped; no communication ID stands for two connections; SA is asked
// for the union, and in the end it has the union and the GUIDs of the functions that are there.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "sriov/multiplexer.h"
#include "sriov/testing/cm_ends.h"
#include "sriov/testing/model_sa.h"
#include "wire/mad/mad.h"

namespace weft::sriov::testing {

using wire::MadMethod;

inline constexpr std::uint64_t kSaLife = 1;
inline constexpr std::uint64_t kPortLife = 2;  ///< of both ports: requests in their own name
inline constexpr std::uint64_t kNobody = 3;    ///< forged
inline constexpr std::array kLids{Lid{1}, Lid{2}};
inline constexpr Lid kSaLid{9};
inline constexpr std::array<std::uint16_t, 2> kFirstNumber{1,
                                                           200};  ///< with tags, and with the table
inline constexpr std::size_t kGroups = 3;
inline constexpr Duration kTick = Duration::seconds(1);

inline Gid mgid_of(std::uint64_t group) { return Gid{0xFF12'401B'FFFF'0000, Guid{group + 1}}; }

struct Scenario {
  std::uint16_t functions{4};  ///< of each port
  unsigned loss{};             ///< percent, and as many repeated
  bool has_failures{};         ///< kills, moves, restarts of SA
  unsigned moves{150};
};

struct Packet {
  std::uint64_t sender{};
  std::uint64_t receiver{};
  bool must_arrive{};  ///< if the receiver is where it is sent to
  Lid to{};
  InboundMad mad{};
};

struct PendingJoin {
  std::uint64_t transaction_id{};
  MadMethod method{};
  Gid mgid{};
  JoinStates states{};
  Instant asked;
};

/// One function from its beginning to its end, wherever it is.
struct Life {
  std::uint64_t number{};
  std::size_t port{};
  FunctionId function{};
  Guid guid{};
  bool is_alive{true};
  bool has_moved{};
  std::uint64_t last_transaction{};  ///< the same numbers in every life
  std::map<Gid, JoinStates> groups;
  std::optional<PendingJoin> join;
  std::unique_ptr<CmEnds> cm;

  [[nodiscard]] Gid gid() const { return Gid{kDefaultGidPrefix, guid}; }
};

class World {
 public:
  World(std::uint64_t seed, const Scenario& chosen);
  std::vector<std::string> run();

 private:
  void expect(bool holds, const std::string& what) {
    if (!holds && findings_.size() < 8) {
      findings_.push_back(what);
    }
  }
  Multiplexer& mux(std::size_t port) { return *muxes_[port]; }
  std::uint64_t new_cookie() { return ++last_cookie_; }

  void add(std::size_t port, FunctionId function);
  Life* at(std::size_t port, FunctionId function);
  Life* of(std::uint64_t number);
  Life* pick(bool wants_active = true);

  // Functions
  void post(Life& life, const MadBytes& mad, Lid to, std::optional<Gid> dgid,
            std::uint64_t receiver, bool must_arrive);
  void ask_sa(Life& life);
  void change_membership(Life& life);
  void send_join(Life& life);
  void connect(Life& life);
  void disconnect(Life& life);
  void resolve_service(Life& life);
  void send_to_the_dead(Life& life);
  void forge_answer();
  void take(Life& life, const wire::TunnelReceive& receive, const Packet* packet);
  void take_cm(Life& life, const MadBytes& mad, const Packet& packet);
  void take_answer(Life& life, const MadBytes& mad);

  // Failures
  void kill(Life& life);
  void move_away(Life& life);
  void restart_sa();

  // Network
  void serve(std::size_t port, std::uint64_t receiver, bool must_arrive);
  void send_own(std::size_t port);
  void check_request(std::size_t port, const MadBytes& mad);
  void check_id(std::size_t port, const Life& life, const MadBytes& mad);
  void transmit(Packet packet);
  void arrive(const Packet& packet);
  void arrive_at_sa(const Packet& packet);
  void arrive_at_port(std::size_t port, const Packet& packet);
  void drain(std::size_t port, const Packet* packet);
  [[nodiscard]] bool is_expected_there(std::size_t port, const Packet& packet);

  void tick();
  void run_for(Duration span);
  void move();
  void settle();
  void check_end();

  Scenario scenario_;
  Random random_;
  Instant now_;
  std::array<std::unique_ptr<Multiplexer>, 2> muxes_;
  ModelSa sa_;
  Instant sa_is_silent_until_;
  std::map<std::uint64_t, Life> lives_;
  std::uint64_t last_life_{1'000'000};  ///< no cookie of a connection
  std::uint64_t last_cookie_{};
  std::uint64_t order_{};
  std::map<std::pair<Instant, std::uint64_t>, Packet> under_way_;
  std::map<std::pair<std::size_t, std::uint32_t>, std::uint64_t> cookie_of_id_;
  /// The ID on the wire of a life's end of a connection, which moves with the function.
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint32_t> wire_ids_;
  std::set<std::pair<std::size_t, std::uint64_t>> seen_requests_;
  /// Connections whose messages have come, each with the LID of the sender.
  std::set<std::pair<Lid, std::uint64_t>> heard_requests_;
  std::map<Lid, Instant> last_own_;  ///< when the last request of a port to SA arrives
  Instant next_tick_;
  bool is_settling_{};
  std::vector<std::string> findings_;
};

}  // namespace weft::sriov::testing
