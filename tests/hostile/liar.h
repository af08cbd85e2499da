#pragma once

// A process of a fabric that knows the protocols and keeps to none of them. It attaches as programs
// do, and gets lanes to every process that it finds; what it then does is an Attack.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "fabric/tables.h"
#include "hca/packet.h"
#include "host/control_socket.h"
#include "host/lane_memory.h"
#include "os/shared_memory.h"
#include "ring/lane.h"
#include "uabi/messages.h"

namespace weft::hostile {

/// The lanes to one victim.
struct Victim {
  uabi::ProcessAddress address;
  os::UniqueFd file;
  os::UniqueFd page_file;
  os::Mapping memory;
  os::Mapping page;
  std::array<ring::LaneEnds, host::kLanesPerPair> ends;
  std::size_t side{};

  [[nodiscard]] host::LaneHead& head(std::uint32_t lane) const;
  [[nodiscard]] ring::LaneEnds& any(Random& random);  // of its lanes
  [[nodiscard]] host::AttentionPage& attention() const;
};

class Liar {
 public:
  Liar(std::string control_path, std::string host, std::uint64_t seed);

  /// Connects and says Hello; ends the program when that does not work.
  void attach();
  /// A connection without Hello.
  [[nodiscard]] host::ControlSocket connect() const;
  /// Whether there is a place still; false after the daemon has thrown us out.
  [[nodiscard]] bool is_attached() const { return static_cast<bool>(control_); }
  void detach();

  /// Reads what the daemon says, and asks for lanes to whoever may be there.
  void look_around();
  void pump();

  /// A packet as an honest process would send it, to the first QPs of that victim.
  [[nodiscard]] hca::PacketHeader honest(const Victim& victim, wire::Opcode opcode);
  /// Puts it into a ring; false when that is full.
  bool put(Victim& victim, hca::Flow flow, const hca::PacketHeader& header,
           std::size_t payload_bytes = 0);
  void wake(Victim& victim);

  [[nodiscard]] Lid lid_of(std::uint32_t node) const;
  [[nodiscard]] Gid gid_of(std::uint32_t node) const;
  /// A host that is neither ours nor the victim's, if there is one.
  [[nodiscard]] std::uint32_t somebody_else(std::uint32_t than) const;

  std::map<uabi::ProcessAddress, Victim> victims;
  Random random;
  uabi::ProcessAddress self;
  host::ControlSocket control_;
  os::UniqueFd tables_file;
  os::UniqueFd counters_file;
  os::UniqueFd page_file;
  std::optional<fabric::TablesView> view;
  std::uint64_t done{};  // lies told
  std::string broken;    // what must not have been possible

 private:
  void take_lane(const uabi::Lane& lane, std::vector<os::UniqueFd>& descriptors);

  std::string path_;
  std::string host_;
  os::Mapping tables_;
  Instant looked_at_{};
};

/// One way to lie. Called again and again until the time is up.
struct Attack {
  std::string_view name;
  void (*act)(Liar&, Victim&){};  // on one victim, or
  void (*act_alone)(Liar&){};     // on the daemon
  bool attaches{true};
};
[[nodiscard]] std::span<const Attack> lane_attacks();
[[nodiscard]] std::span<const Attack> control_attacks();

}  // namespace weft::hostile
