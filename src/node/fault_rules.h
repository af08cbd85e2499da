#pragma once

// The rules of faults of one fabric (docs/ARCHITECTURE.md, decision 8): which there are, since when
// and until when, and what they make of the tables. Pure: its owner says what time it is and
// publishes the tables. One thread.

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
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
  /// Told of each link, by its lower port, that rules take down or no longer do.
  using LinkListener = std::function<void(fabric::PortIndex link, bool is_down, Instant now)>;

  FaultRules(fabric::TablesBuilder& builder, LinkListener on_link)
      : builder_(builder), on_link_(std::move(on_link)) {}

  /// From now on, on the links of `ports` (of every cable, if there are none). Of too many rules
  /// those that have ended are forgotten first.
  [[nodiscard]] Result<std::uint32_t> add(const fabric::FaultDescription& fault,
                                          std::span<const fabric::PortIndex> ports, Instant now);
  /// Ends the rule and forgets it.
  [[nodiscard]] Result<void> remove(std::uint32_t number, Instant now);
  void remove_all(Instant now);

  /// Ends those whose time is over; true if there were such.
  [[nodiscard]] bool end_due(Instant now);
  [[nodiscard]] Instant next_end() const;

  /// In the order in which they were added.
  [[nodiscard]] std::span<const FaultRule> all() const { return rules_; }

  [[nodiscard]] bool takes_down(fabric::PortIndex link) const { return down_.contains(link); }

  /// The links that a rule of kind Down takes down, each by one of its ports.
  [[nodiscard]] std::vector<fabric::PortIndex> links_of(const FaultRule& rule) const;

 private:
  [[nodiscard]] std::vector<FaultRule>::iterator find(std::uint32_t number);
  [[nodiscard]] std::uint32_t free_slot();
  void begin(const FaultRule& rule, Instant now);
  void end(FaultRule& rule, Instant now);
  void tell_tables();

  fabric::TablesBuilder& builder_;
  LinkListener on_link_;
  std::vector<FaultRule> rules_;
  std::map<fabric::PortIndex, std::uint32_t> down_;  // rules, by the link's lower port
  std::uint32_t next_number_{1};
  std::uint32_t newest_slot_{fabric::kMaxFaultRules - 1};
};

}  // namespace weft::node
