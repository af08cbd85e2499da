#pragma once

// The performance management agent of every node (IBTA vol 1 §16.1): reads and sets port counters
// by MADs of class 0x04, their breakdown, and their sampling over an interval. Pure;
// single-threaded.
//
// Counters of errors that this fabric never has (symbol errors, link recovery, constraint errors,
// link integrity, buffer overruns, VL mapping) are always 0. Attributes are refused if their
// counters would have to be kept and are not (those by VL), or if they concern flow control
// packets, congestion control or FEC, which links here do not have.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/identifiers.h"
#include "base/time.h"
#include "fabric/counter_source.h"
#include "fabric/counters.h"
#include "fabric/port_details.h"
#include "fabric/tables.h"
#include "mad/mad_address.h"
#include "wire/mad/mad.h"
#include "wire/mad/perf_mad.h"
#include "wire/mad/port_samples.h"

namespace weft::agents {

class Pma {
 public:
  /// The PortSelect value for all ports of a node together.
  static constexpr PortNumber kAllPorts{0xFF};
  /// Duration of a tick of PortXmitWait and of samples: (249 + 1) times 4 ns, one microsecond
  /// (§16.1.3.2).
  static constexpr std::uint8_t kTick = 249;
  static constexpr Duration kTickTime = Duration::microseconds(1);

  Pma(const fabric::TablesBuilder& tables, fabric::CounterSource& counters);

  /// Handles a Get or Set that arrived at `own`, a port of an HCA or port 0 of a switch: `mad`
  /// becomes the response. False if it is neither.
  [[nodiscard]] bool handle(fabric::PortIndex own, mad::MadBytes& mad, Instant now);

  /// Whether ClassPortInfo reports that PortCountersExtended includes error counters.
  void set_additional_counters(bool are_there) { has_additional_counters_ = are_there; }

  /// Starts and ends samplings that are due at `now`.
  void handle_timeout(Instant now);
  /// When handle_timeout() is due next.
  [[nodiscard]] Instant deadline() const;

 private:
  static constexpr std::size_t kSampleCounters = 15;
  using Data = std::span<std::byte, wire::kPerfDataBytes>;
  struct Request {
    fabric::PortIndex own;
    bool is_set{};
    Instant now{};
    Data data;
  };
  using Handler = std::uint16_t (Pma::*)(Request&);
  struct Attribute {
    wire::PerfAttribute id;
    Handler get;
    Handler set;  // null: read-only
  };
  static const std::array<Attribute, 10> kAttributes;

  /// A node samples one port at a time, since a result does not name its port. Runs from `starts`
  /// to `ends`; then `results` are valid.
  struct Sampling {
    fabric::PortIndex port{fabric::kNoPort};
    wire::PortSamplesControl control;
    Instant starts;
    Instant ends;
    fabric::PortCounters at_start;
    std::array<std::uint64_t, kSampleCounters> results{};
  };

  [[nodiscard]] std::uint16_t serve(Request& request, const wire::MadHeader& header);
  [[nodiscard]] std::uint16_t get_class_port_info(Request& request);
  [[nodiscard]] std::uint16_t get_counters(Request& request);
  [[nodiscard]] std::uint16_t set_counters(Request& request);
  [[nodiscard]] std::uint16_t get_extended(Request& request);
  [[nodiscard]] std::uint16_t set_extended(Request& request);
  [[nodiscard]] std::uint16_t get_control(Request& request);
  [[nodiscard]] std::uint16_t set_control(Request& request);
  [[nodiscard]] std::uint16_t get_result(Request& request);
  [[nodiscard]] std::uint16_t get_result_extended(Request& request);

  // pma_details.cc
  [[nodiscard]] fabric::PortDetails details_of(std::span<const fabric::PortIndex> ports,
                                               Instant now);
  template <class Wanted, class Write>
  void write_details(const Request& request, const Wanted& wanted, Write write);
  [[nodiscard]] std::uint16_t get_rcv_errors(Request& request);
  [[nodiscard]] std::uint16_t set_rcv_errors(Request& request);
  [[nodiscard]] std::uint16_t get_discards(Request& request);
  [[nodiscard]] std::uint16_t set_discards(Request& request);
  template <fabric::PortDetails::BySl fabric::PortDetails::* kLevels>
  [[nodiscard]] std::uint16_t get_data_sl(Request& request);
  template <fabric::PortDetails::BySl fabric::PortDetails::* kLevels>
  [[nodiscard]] std::uint16_t set_data_sl(Request& request);

  [[nodiscard]] std::vector<fabric::PortIndex> ports_named(fabric::PortIndex own,
                                                           PortNumber select) const;
  [[nodiscard]] fabric::PortCounters sum_of(std::span<const fabric::PortIndex> ports, Instant now);

  const fabric::TablesBuilder& tables_;
  fabric::CounterSource& counters_;
  bool has_additional_counters_{true};
  std::map<fabric::PortIndex, Sampling> samplings_;  // by the port of the agent
  std::set<std::pair<Instant, fabric::PortIndex>> schedule_;
};

}  // namespace weft::agents
