#pragma once

// The one walk of the switches' forwarding tables, cable by cable: it resolves paths of data
// packets (fabric/path.h), and MADs and datagrams of the daemon follow it as they travel
// (src/carriage). Nothing else forwards packets by these tables, which tools/tidy enforces. The
// tables may be a TablesView or a TablesBuilder, which must outlive the walk. Single-threaded.

#include <cstdint>
#include <optional>
#include <unordered_set>
#include <vector>

#include "base/assert.h"
#include "base/identifiers.h"
#include "fabric/link_address.h"
#include "fabric/path_end.h"
#include "fabric/tables.h"

namespace weft::fabric {

/// Port `number` of a switch; kNoPort if it has no such port.
template <class Tables>
[[nodiscard]] PortIndex port_of_switch(const Tables& tables, NodeIndex node, PortNumber number) {
  const NodeRecord& record = tables.node(node);
  return number.value() < record.port_count ? PortIndex{record.first_port.value() + number.value()}
                                            : kNoPort;
}

/// The port at which a node is managed: an HCA port itself, or port 0 of a switch.
template <class Tables>
[[nodiscard]] PortIndex management_port(const Tables& tables, PortIndex port) {
  const PortRecord& record = tables.port(port);
  return record.is_switch_port() ? tables.node(record.node).first_port : port;
}

/// The reason why the cable at `egress` does not carry such packets; nullopt if it does.
template <class Tables>
[[nodiscard]] std::optional<PathUse> blocking_end(const Tables& tables, PortIndex egress,
                                                  Traffic traffic,
                                                  LinkType type = LinkType::InfiniBand) {
  const PortRecord& from = tables.port(egress);
  if (from.peer == kNoPort) {
    return PathUse::NoCable;
  }
  const PortRecord& to = tables.port(from.peer);
  const bool passes = traffic == Traffic::SubnetManagement
                          ? from.state != PortState::Down && to.state != PortState::Down
                          : from.state == PortState::Active && to.state >= PortState::Armed;
  return passes && from.link_type == type ? std::nullopt : std::optional{PathUse::LinkDown};
}

/// Where a walk goes to: a LID, of the space of one kind of link.
class WalkLid {
 public:
  explicit constexpr WalkLid(Lid lid) : value_(lid.value()), type_(LinkType::InfiniBand) {}
  explicit constexpr WalkLid(ExtendedLid lid) : value_(lid.value()), type_(LinkType::OmniPath) {}
  /// The destination; no LID, which nobody owns, where links have none.
  explicit constexpr WalkLid(const LinkAddress& address) : value_(0), type_(address.type()) {
    if (const LidPair* const lids = address.lids()) {
      value_ = lids->destination.value();
    } else if (const ExtendedLidPair* const extended = address.extended_lids()) {
      value_ = extended->destination.value();
    }
  }

  [[nodiscard]] constexpr LinkType type() const { return type_; }
  [[nodiscard]] constexpr bool is_unicast() const {
    return is_extended() ? ExtendedLid{value_}.is_unicast() : Lid{value_}.is_unicast();
  }
  [[nodiscard]] constexpr bool is_multicast() const {
    return is_extended() ? ExtendedLid{value_}.is_multicast() : Lid{value_}.is_multicast();
  }
  [[nodiscard]] constexpr bool is_permissive() const {
    return is_extended() ? ExtendedLid{value_}.is_permissive() : Lid{value_}.is_permissive();
  }
  [[nodiscard]] bool is_of(const PortRecord& port) const {
    return is_extended() ? port.owns(ExtendedLid{value_}) : port.owns(Lid{value_});
  }
  template <class Tables>
  [[nodiscard]] PortNumber forward(const Tables& tables, NodeIndex node) const {
    return is_extended() ? tables.forward(node, ExtendedLid{value_})
                         : tables.forward(node, Lid{value_});
  }
  template <class Tables>
  [[nodiscard]] bool is_forwarded(const Tables& tables, NodeIndex node, PortNumber port) const {
    return is_extended() ? tables.forwards_multicast(node, ExtendedLid{value_}, port)
                         : tables.forwards_multicast(node, Lid{value_}, port);
  }

 private:
  [[nodiscard]] constexpr bool is_extended() const { return type_ == LinkType::OmniPath; }

  std::uint32_t value_;
  LinkType type_;
};

/// The end of a walk: where the packet was delivered, or the port that counts the drop.
struct WalkEnd {
  PathUse outcome{PathUse::Delivered};
  PathEnd end{PathEnd::Delivered};
  PortIndex port{kNoPort};

  [[nodiscard]] bool is_delivered() const { return outcome == PathUse::Delivered; }
};

/// The path of one packet from an HCA port, or port 0 of a switch, to the owner of its destination.
/// Each next() returns one cable; after nullopt the walk is over, and end() tells how.
template <class Tables>
class UnicastWalk {
 public:
  UnicastWalk(const Tables& tables, PortIndex source, const LinkAddress& address, Traffic traffic)
      : tables_(&tables),
        address_(address),
        dlid_(address),
        at_(source),
        source_(source),
        traffic_(traffic) {
    WEFT_DEBUG_ASSERT(
        !tables.port(source).is_switch_port() || tables.port(source).number == PortNumber{},
        "of a switch, packets start at port 0");
  }

  /// Must not be called again after it returned nullopt.
  [[nodiscard]] std::optional<Hop> next() {
    const PortIndex egress = hops_ == 0 ? first_egress() : next_egress();
    if (egress == kNoPort) {
      return std::nullopt;
    }
    if (const auto failure = blocking_end(*tables_, egress, traffic_, address_.type())) {
      end_ = {*failure, PathEnd::PortInactive, egress};
      return std::nullopt;
    }
    ++hops_;
    at_ = tables_->port(egress).peer;
    return Hop{egress, at_};
  }

  [[nodiscard]] const WalkEnd& end() const { return end_; }
  [[nodiscard]] PortIndex source() const { return source_; }
  [[nodiscard]] const LinkAddress& address() const { return address_; }

 private:
  [[nodiscard]] PortIndex stop(PathUse outcome, PathEnd end, PortIndex port) {
    end_ = {outcome, end, port};
    return kNoPort;
  }
  [[nodiscard]] PortIndex arrive(PortIndex port) {
    return stop(PathUse::Delivered, PathEnd::Delivered, port);
  }
  [[nodiscard]] PortIndex first_egress() {
    const PortRecord& source = tables_->port(source_);
    const bool from_switch = source.is_switch_port();
    const bool may_send =
        from_switch || traffic_ != Traffic::Data || source.state == PortState::Active;
    if (dlid_.is_unicast() && dlid_.is_of(source)) {  // inside one port, no cable crossed
      return may_send ? arrive(source_) : stop(PathUse::SourceDown, PathEnd::PortInactive, source_);
    }
    if (from_switch) {
      return next_egress();
    }
    return may_send ? source_ : stop(PathUse::SourceDown, PathEnd::PortInactive, source_);
  }

  /// The egress port at the node that the packet has reached.
  [[nodiscard]] PortIndex next_egress() {
    const PortRecord& port = tables_->port(at_);
    if (!dlid_.is_unicast()) {
      if (dlid_.is_permissive() && traffic_ == Traffic::SubnetManagement && hops_ == 1) {
        return arrive(at_);  // IBTA vol 1 §4.1.3: the neighbour's QP0
      }
      return stop(PathUse::InvalidDlid,
                  port.is_switch_port() ? PathEnd::DlidMapping : PathEnd::Malformed, at_);
    }
    if (!port.is_switch_port()) {
      return dlid_.is_of(port) ? arrive(at_) : stop(PathUse::NotTheOwner, PathEnd::Malformed, at_);
    }
    const PortNumber number = dlid_.forward(*tables_, port.node);
    const PortIndex egress =
        number == kNoRoute ? kNoPort : port_of_switch(*tables_, port.node, number);
    if (egress == kNoPort) {
      return stop(PathUse::NoRoute, PathEnd::DlidMapping, at_);
    }
    if (number == PortNumber{}) {
      return dlid_.is_of(tables_->port(egress))
                 ? arrive(egress)
                 : stop(PathUse::NotTheOwner, PathEnd::DlidMapping, at_);
    }
    if (egress == at_) {  // PortLoopingErrors, IBTA vol 1 §16.1.4
      return stop(PathUse::Loop, PathEnd::Looping, at_);
    }
    return hops_ < kMaxHops ? egress : stop(PathUse::Loop, PathEnd::LifetimeLimit, egress);
  }

  const Tables* tables_;
  LinkAddress address_;
  WalkLid dlid_;
  PortIndex at_;  // the source, or the last ingress port
  PortIndex source_;
  Traffic traffic_;
  std::uint32_t hops_{};
  WalkEnd end_;
};

/// Replicates one packet along the multicast forwarding tables, breadth first, as switches do: to
/// every port of the mask except the ingress. A switch relays each copy that it receives, so a loop
/// in the tables would never end: each direction of a cable is crossed at most once.
template <class Tables>
class MulticastWalk {
 public:
  /// One copy on one cable. Without an ingress, the link did not carry it.
  struct Branch {
    Hop hop;
    std::uint32_t parent{kNoIndex};  // index of the cable before; kNoIndex: starts at the source
  };

  /// Starts at an HCA port whose link carries data, or at port 0 of a switch.
  MulticastWalk(const Tables& tables, PortIndex source, WalkLid mlid)
      : tables_(&tables), mlid_(mlid), source_(source) {
    const PortRecord& record = tables.port(source);
    WEFT_DEBUG_ASSERT(!record.is_switch_port() || record.number == PortNumber{},
                      "of a switch, packets start at port 0");
    starts_at_hca_ = !record.is_switch_port();
    if (!starts_at_hca_) {
      relay_from(source);
    }
  }

  /// Nullopt: no cables are left.
  [[nodiscard]] std::optional<Branch> next() {
    if (starts_at_hca_) {
      starts_at_hca_ = false;
      return cross(source_);
    }
    while (number_ < port_count_ || find_next_switch()) {
      const PortNumber number{static_cast<std::uint8_t>(number_++)};
      const NodeIndex node = tables_->port(at_).node;
      const PortIndex egress = port_of_switch(*tables_, node, number);
      if (egress == at_ || !mlid_.is_forwarded(*tables_, node, number)) {
        continue;
      }
      if (number == PortNumber{}) {
        reach(egress);
      } else if (const auto branch = cross(egress)) {
        return branch;
      }
    }
    return std::nullopt;
  }

  /// HCA ports and ports 0 of switches reached so far, without the source.
  [[nodiscard]] std::vector<PortIndex>& members() { return members_; }

 private:
  [[nodiscard]] std::optional<Branch> cross(PortIndex egress) {
    if (blocking_end(*tables_, egress, Traffic::Data, mlid_.type())) {
      return Branch{
          .hop = {egress, kNoPort},
            .parent = parent_
      };
    }
    if (!crossed_.insert(egress.value()).second) {
      return std::nullopt;
    }
    const PortIndex ingress = tables_->port(egress).peer;
    ingresses_.push_back(ingress);
    if (!tables_->port(ingress).is_switch_port()) {
      reach(ingress);
    }
    return Branch{
        .hop = {egress, ingress},
          .parent = parent_
    };
  }

  void reach(PortIndex port) {
    if (port != source_ && reached_.insert(port.value()).second) {
      members_.push_back(port);
    }
  }

  void relay_from(PortIndex ingress) {
    at_ = ingress;
    number_ = 0;
    port_count_ = tables_->node(tables_->port(ingress).node).port_count;
  }

  [[nodiscard]] bool find_next_switch() {
    while (next_ < ingresses_.size()) {
      parent_ = static_cast<std::uint32_t>(next_);
      const PortIndex ingress = ingresses_[next_++];
      if (tables_->port(ingress).is_switch_port()) {
        relay_from(ingress);
        return true;
      }
    }
    return false;
  }

  const Tables* tables_;
  WalkLid mlid_;
  PortIndex source_;
  bool starts_at_hca_{};
  PortIndex at_{kNoPort};  // ingress of the relaying switch
  std::uint32_t number_{};
  std::uint32_t port_count_{};
  std::uint32_t parent_{kNoIndex};
  std::size_t next_{};                // index into ingresses_ of the next switch to relay
  std::vector<PortIndex> ingresses_;  // of the cables crossed, in order
  std::vector<PortIndex> members_;
  std::unordered_set<std::uint32_t> crossed_;
  std::unordered_set<std::uint32_t> reached_;
};

}  // namespace weft::fabric
