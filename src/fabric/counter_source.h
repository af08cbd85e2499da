#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "base/identifiers.h"
#include "base/time.h"
#include "fabric/counters.h"
#include "fabric/port_details.h"
#include "fabric/tables.h"

namespace weft::fabric {

/// Where performance management has its counters from: they are kept once per path, by those who
/// send (docs/ARCHITECTURE.md, decision 1), and summed by the owner of the fabric.
class CounterSource {
 public:
  CounterSource() = default;
  virtual ~CounterSource() = default;
  CounterSource(const CounterSource&) = delete;
  CounterSource& operator=(const CounterSource&) = delete;

  /// The fabric has so many ports: before anybody asks, and when it grows.
  virtual void resize(std::size_t port_count) = 0;
  [[nodiscard]] virtual PortCounters read(PortIndex port, Instant now) = 0;
  /// From now on the port counts from `value`.
  virtual void set(PortIndex port, const PortCounters& value, Instant now) = 0;
  /// What the management plane itself counts at the port: its packets, downs of its link. Whoever
  /// counts only adds; the reference is good until resize().
  [[nodiscard]] virtual PortCounters& own(PortIndex port) = 0;

  /// What the counters of a port are made of. A Set of one is none of the other.
  [[nodiscard]] virtual PortDetails read_details(PortIndex port, Instant now) = 0;
  virtual void set_details(PortIndex port, const PortDetails& value, Instant now) = 0;
  /// As own(); without level 0, which is the rest.
  [[nodiscard]] virtual DetailsOfPorts& own_details() = 0;
};

/// Counters that are numbers, for who carries no data or counts it here.
class PlainCounters final : public CounterSource {
 public:
  void resize(std::size_t port_count) override { ports.resize(port_count); }
  [[nodiscard]] PortCounters read(PortIndex port, Instant /*now*/) override {
    return ports.at(port.value());
  }
  void set(PortIndex port, const PortCounters& value, Instant /*now*/) override {
    PortCounters& taken = taken_off_[port];
    taken += ports.at(port.value());
    taken -= value;
    ports.at(port.value()) = value;
  }
  [[nodiscard]] PortCounters& own(PortIndex port) override { return ports[port.value()]; }

  [[nodiscard]] PortDetails read_details(PortIndex port, Instant now) override {
    PortCounters counted = read(port, now);
    if (const auto taken = taken_off_.find(port); taken != taken_off_.end()) {
      counted += taken->second;
    }
    PortDetails value = with_level_0(details_of(details, port), counted);
    return value -= details_of(details_taken_off_, port);
  }
  void set_details(PortIndex port, const PortDetails& value, Instant now) override {
    const PortDetails known = read_details(port, now);
    PortDetails& taken = details_taken_off_[port];
    taken += known;
    taken -= value;
  }
  [[nodiscard]] DetailsOfPorts& own_details() override { return details; }

  std::vector<PortCounters> ports;
  DetailsOfPorts details;

 private:
  std::unordered_map<PortIndex, PortCounters> taken_off_;
  DetailsOfPorts details_taken_off_;
};

}  // namespace weft::fabric
