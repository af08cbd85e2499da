#pragma once

// The fault rules of one fabric (docs/ARCHITECTURE.md, decision 8): their lifetime and their
// entries in the fabric's tables. Pure: the owner passes the time and publishes the tables. Not
// thread-safe.

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

/// A fault rule with the links it applies to.
struct FaultRule {
  std::uint32_t number{};  // counted from 1, never reused
  std::uint32_t slot{};    // index of its counters
  fabric::FaultDescription description;
  std::vector<fabric::PortIndex> egresses;  // sending ports of its links; empty: all links
  Instant ends{Instant::never()};
  bool has_ended{};  // no longer applied; kept for its counters
};

/// Adds, expires and removes fault rules.
class FaultRules {
 public:
  /// Called for each link (named by its lower port) when rules take it down or release it.
  using LinkListener = std::function<void(fabric::PortIndex link, bool is_down, Instant now)>;

  FaultRules(fabric::TablesBuilder& builder, LinkListener on_link)
      : builder_(builder), on_link_(std::move(on_link)) {}

  /// Adds a rule for the links of `ports`, or for all cables if empty. When the table is full,
  /// expired rules are removed first.
  [[nodiscard]] Result<std::uint32_t> add(const fabric::FaultDescription& fault,
                                          std::span<const fabric::PortIndex> ports, Instant now);
  /// Ends the rule and removes it with its counters.
  [[nodiscard]] Result<void> remove(std::uint32_t number, Instant now);
  void remove_all(Instant now);

  /// Expires rules whose duration has passed. Returns true if there were any.
  [[nodiscard]] bool end_due(Instant now);
  [[nodiscard]] Instant next_end() const;

  /// All rules, in the order in which they were added.
  [[nodiscard]] std::span<const FaultRule> all() const { return rules_; }

  [[nodiscard]] bool takes_down(fabric::PortIndex link) const { return down_.contains(link); }

  /// Links that a rule of kind Down takes down, each named by one of its ports.
  [[nodiscard]] std::vector<fabric::PortIndex> links_of(const FaultRule& rule) const;

 private:
  [[nodiscard]] std::vector<FaultRule>::iterator find(std::uint32_t number);
  [[nodiscard]] std::uint32_t free_slot();
  void begin(const FaultRule& rule, Instant now);
  void end(FaultRule& rule, Instant now);
  void update_tables();

  fabric::TablesBuilder& builder_;
  LinkListener on_link_;
  std::vector<FaultRule> rules_;
  // number of Down rules, by the link's lower port
  std::map<fabric::PortIndex, std::uint32_t> down_;
  std::uint32_t next_number_{1};
  std::uint32_t newest_slot_{fabric::kMaxFaultRules - 1};
};

}  // namespace weft::node
