#pragma once

// The Ethernet Manager: makes virtual Ethernet switches of virtual ports by MADs, and keeps their
// MAC tables right. It holds no state that the ports do not have, so that another manager may go on
// where this one ends. Pure, not thread-safe; MADs and time come with calls.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/identifiers.h"
#include "base/keys.h"
#include "base/time.h"
#include "ulp/opa_vnic/manager/config.h"
#include "ulp/opa_vnic/manager/mac_plan.h"
#include "ulp/opa_vnic/manager/member_states.h"
#include "wire/opa/mac_messages.h"
#include "wire/opa/vema_mad.h"
#include "wire/opa/vesw_port_counters.h"
#include "wire/opa/vesw_port_info.h"

namespace weft::opa_vnic {

/// An OPA port as the manager sees it in the fabric.
struct FabricPort {
  Guid guid{};
  std::uint32_t lid{};
  bool has_ethernet_on_fabric{};  ///< in its capability mask
  bool operator==(const FabricPort&) const = default;
};

/// The manager's own port: where traps go.
struct ManagerAddress {
  std::uint32_t lid{};
  std::uint8_t sl{};
  PKey pkey{kDefaultPKey};
};

/// Policy, not from the specification.
struct ManagerLimits {
  Duration answer{Duration::milliseconds(1100)};  ///< the agents' response time is 1.07 s
  unsigned tries{4};
  Duration retry{Duration::seconds(5)};      ///< after all tries
  Duration interval{Duration::seconds(20)};  ///< between looks at a port that runs
  std::size_t macs_of_member{1024};
  unsigned page_restarts{8};  ///< a list that changes while it is read
};

struct ManagerMad {
  Lid lid{};
  wire::VemaMad mad{};
};

/// For users to see.
struct MemberStatus {
  std::string switch_name;
  MemberConfig config;
  MemberState state{};
  std::uint32_t lid{};
  wire::EthLinkStatus link{};
  std::uint32_t digest{};
  std::size_t reported_macs{};
  wire::VeswPortSummaryCounters counters{};
  wire::VeswPortErrorCounters errors{};
};

struct ManagerCounters {
  std::uint64_t requests{};
  std::uint64_t repeats{};
  std::uint64_t failures{};  ///< requests without an answer, or refused
  std::uint64_t traps{};
  std::uint64_t reloads{};  ///< ports that were not as they had been left
  std::uint64_t ignored{};  ///< MADs that nobody waits for, or that are none
};

class EthernetManager {
 public:
  /// `seed` keeps its transactions apart from those of the manager before it.
  EthernetManager(const ManagerAddress& address, std::uint64_t seed,
                  const ManagerLimits& limits = {});

  /// Replaces the configuration, which is valid: members that are not in it any more are deleted.
  void set_config(ManagerConfig config, Instant now);
  /// The ports of the fabric at present.
  void set_ports(std::span<const FabricPort> ports, Instant now);

  void handle_mad(Lid from, ByteSpan mad, Instant now);
  void handle_timeout(Instant now);
  [[nodiscard]] std::optional<ManagerMad> poll_transmit();
  [[nodiscard]] Instant deadline() const;

  [[nodiscard]] std::vector<MemberStatus> status() const;
  [[nodiscard]] const ManagerCounters& counters() const { return counters_; }
  /// All members that are there run, and have the tables that they should have.
  [[nodiscard]] bool is_settled() const;

 private:
  static constexpr std::uint64_t kNoTransaction = 0;

  struct Member {
    std::size_t switch_index{};
    std::size_t index{};  // in its switch
    MemberConfig config;
    MemberState state{MemberState::Absent};
    std::uint32_t lid{};
    Instant deadline{Instant::never()};  // of the answer, or of the next look
    std::uint64_t transaction{kNoTransaction};
    wire::VemaMad request{};
    unsigned tries{};
    bool is_told{};    // by a trap that came while another request was open
    bool has_lists{};  // read since it appeared
    wire::VeswPortInfo info{};
    std::uint32_t digest{};                    // of the table that the virtual port has
    std::optional<std::size_t> old_entries{};  // how many it may have; none: unknown
    std::vector<wire::MacTableEntry> writing;
    std::size_t written{};
    std::vector<wire::MacAddress> page_macs;
    std::uint16_t page_generation{};
    unsigned page_restarts{};
    std::vector<wire::MacAddress> reported;
    wire::VeswPortSummaryCounters summary{};
    wire::VeswPortErrorCounters errors{};
  };

  // ethernet_manager.cc
  void step(Member& member, MemberEvent event, Instant now);
  void enter(Member& member, Instant now);
  void handle_answer(Member& member, const wire::VemaMad& answer, Instant now);
  void handle_trap(Lid from, const wire::VemaMad& trap, Instant now);
  void send(Member& member, Instant now);
  void update_tables(Instant now);
  [[nodiscard]] bool may_write_tables(std::size_t switch_index) const;
  [[nodiscard]] std::vector<wire::MacTableEntry> table_of(const Member& member) const;
  [[nodiscard]] std::vector<MemberMacs> macs_of(std::size_t switch_index) const;

  // member_requests.cc
  void form_request(Member& member);
  void form_table_block(Member& member);
  [[nodiscard]] MemberEvent take_answer(Member& member, const wire::VemaMad& answer);
  [[nodiscard]] MemberEvent take_info(Member& member, const wire::VemaMad& answer);
  [[nodiscard]] MemberEvent take_page(Member& member, const wire::VemaMad& answer);
  [[nodiscard]] wire::VeswPortInfo wanted(const Member& member, wire::VeswPortState state) const;

  ManagerAddress address_;
  ManagerLimits limits_;
  ManagerConfig config_;
  std::map<Guid, FabricPort> ports_;
  std::vector<Member> members_;
  std::deque<ManagerMad> out_;
  std::uint64_t next_transaction_;
  ManagerCounters counters_;
};

}  // namespace weft::opa_vnic
