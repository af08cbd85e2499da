#pragma once

// The rules of faults of one fabric (DESIGN.md, decision 8): which there are, since when and until
// when, and what they make of the tables. Pure: its owner says what time it is and publishes the
// tables. One thread.

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "fabric/fault_description.h"
#include "fabric/tables.h"

namespace weft::node {

struct FaultRule {
  std::uint32_t number{};  // of this fabric, counted from 1, never used again
  std::uint32_t slot{};    // of its counts
  fabric::FaultDescription description;
  std::vector<fabric::PortIndex> egresses;  // ports that send on its links; none: on every link
  Instant ends{Instant::never()};
  bool has_ended{};  // it hits nothing any more, and is kept for its counts
};

class FaultRules {
 public:
  explicit FaultRules(fabric::TablesBuilder& builder) : builder_(builder) {}

  /// From now on, on the links of `ports` (of every cable, if there are none). Of too many rules
  /// those that have ended are forgotten first.
  [[nodiscard]] Result<std::uint32_t> add(const fabric::FaultDescription& fault,
                                          std::span<const fabric::PortIndex> ports, Instant now);
  /// Ends the rule and forgets it.
  [[nodiscard]] Result<void> remove(std::uint32_t number);
  void remove_all();

  /// Ends those whose time is over; true if there were such.
  [[nodiscard]] bool end_due(Instant now);
  [[nodiscard]] Instant next_end() const;

  /// In the order in which they were added.
  [[nodiscard]] std::span<const FaultRule> all() const { return rules_; }

  /// The links that a rule of kind Down takes down, each by one of its ports.
  [[nodiscard]] std::vector<fabric::PortIndex> links_of(const FaultRule& rule) const;

 private:
  struct Outage {
    std::uint32_t rules{};
    fabric::PortState before{};
  };
  [[nodiscard]] std::vector<FaultRule>::iterator find(std::uint32_t number);
  [[nodiscard]] std::uint32_t free_slot() const;
  void begin(const FaultRule& rule);
  void end(FaultRule& rule);
  void tell_tables();

  fabric::TablesBuilder& builder_;
  std::vector<FaultRule> rules_;
  std::map<fabric::PortIndex, Outage> down_;  // by the link's lower port
  std::uint32_t next_number_{1};
};

}  // namespace weft::node
