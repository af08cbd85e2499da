#include "subnet/sa/table_records.h"

#include <algorithm>

#include "wire/mad/sa_table_records.h"

namespace weft::subnet {
namespace {

/// Common part of all table records: the LID selects the port, and each matching block is a record.
template <wire::WireType T>
class BlockAnswer {
 public:
  /// `of_switches`: components that select ports of a switch. They are ignored for HCA ports, which
  /// the LID identifies (§15.2.5.4).
  BlockAnswer(const SaQuery& query, SaAnswer& answer, std::uint64_t of_switches = 0)
      : query_(query),
        answer_(answer),
        wanted_(query.record<T>()),
        matcher_(wanted_, query.mask() & ~wire::kComponent<T, "LID">),
        matcher_of_hcas_(wanted_, query.mask() & ~(wire::kComponent<T, "LID"> | of_switches)) {}

  template <class Visit>
  void for_each_end_port(Visit&& visit) {
    const auto lid = query_.has<T, "LID">() ? std::optional{wanted_.lid} : std::nullopt;
    query_.for_each_end_port(lid, answer_, visit);
  }
  void add(const T& record, bool is_of_switch = true) {
    const auto bytes = wire::pack(record);
    if ((is_of_switch ? matcher_ : matcher_of_hcas_).matches(bytes)) {
      answer_.add(bytes);
    }
  }
  [[nodiscard]] const T& wanted() const { return wanted_; }

 private:
  const SaQuery& query_;
  SaAnswer& answer_;
  T wanted_;
  ComponentMatcher<T> matcher_;
  ComponentMatcher<T> matcher_of_hcas_;
};

/// Visits the blocks of a table, or only the one in the query.
template <class Visit>
void for_each_block(std::size_t count, std::optional<std::size_t> named, Visit&& visit) {
  for (std::size_t block = named.value_or(0); block < (named ? *named + 1 : count); ++block) {
    if (block < count) {
      visit(block);
    }
  }
}

/// Visits the ports with tables of their own: all ports of a switch including port 0, or the HCA
/// port.
template <class Visit>
void for_each_port(const Subnet& subnet, PortId id, Visit&& visit) {
  if (!subnet.node(id.node).is_switch()) {
    return visit(subnet.port(id));
  }
  for (const SubnetPort& port : subnet.node(id.node).ports) {
    visit(port);
  }
}

/// Table of a switch's port 0: each SL maps to the VL of its number, because nothing is mapped at
/// the endpoint.
[[nodiscard]] wire::SlToVlMappingTable own_lanes() {
  wire::SlToVlMappingTable table;
  for (std::uint8_t sl = 0; sl < table.vls.size(); ++sl) {
    table.vls[sl] = VirtualLane{sl};
  }
  return table;
}

}  // namespace

void answer_sl_to_vl_records(const SaQuery& query, SaAnswer& answer) {
  using Record = wire::SlToVlMappingTableRecord;
  BlockAnswer<Record> blocks{
      query, answer,
      wire::kComponent<Record, "InputPortNum"> | wire::kComponent<Record, "OutputPortNum">};
  blocks.for_each_end_port([&](PortId id) {
    const Lid lid = query.subnet().port(id).info.lid;
    const bool is_switch = query.subnet().node(id.node).is_switch();
    for_each_port(query.subnet(), id, [&](const SubnetPort& port) {
      if (port.sl_to_vl.empty() && is_switch && port.number == PortNumber{}) {
        blocks.add({.lid = lid, .table = own_lanes()});  // required by `osmtest -f q`
      }
      for (std::size_t i = 0; i < port.sl_to_vl.size(); ++i) {
        blocks.add({.lid = lid,
                    .input_port = PortNumber{static_cast<std::uint8_t>(is_switch ? i : 0)},
                    .output_port = port.number,
                    .table = port.sl_to_vl[i]},
                   is_switch);
      }
    });
  });
}

void answer_vl_arbitration_records(const SaQuery& query, SaAnswer& answer) {
  using Record = wire::VlArbitrationTableRecord;
  constexpr std::uint8_t kArbitrationBlocks = 4;
  BlockAnswer<Record> blocks{query, answer, wire::kComponent<Record, "OutputPortNum">};
  blocks.for_each_end_port([&](PortId id) {
    const Lid lid = query.subnet().port(id).info.lid;
    const bool is_switch = query.subnet().node(id.node).is_switch();
    for_each_port(query.subnet(), id, [&](const SubnetPort& port) {
      if (port.vl_arbitration.empty() && !(is_switch && port.number == PortNumber{})) {
        return;
      }
      // All four blocks; entries that the port does not have get weight 0 (§14.2.5.9).
      for (std::uint8_t block = 1; block <= kArbitrationBlocks; ++block) {
        blocks.add({.lid = lid,
                    .output_port = port.number,
                    .block = block,
                    .table = block <= port.vl_arbitration.size() ? port.vl_arbitration[block - 1U]
                                                                 : wire::VlArbitrationTable{}},
                   is_switch);
      }
    });
  });
}

void answer_linear_forwarding_records(const SaQuery& query, SaAnswer& answer) {
  using Record = wire::LinearForwardingTableRecord;
  BlockAnswer<Record> blocks{query, answer};
  const auto named = query.has<Record, "BlockNum">()
                         ? std::optional<std::size_t>{blocks.wanted().block}
                         : std::nullopt;
  blocks.for_each_end_port([&](PortId id) {
    const SubnetNode& node = query.subnet().node(id.node);
    if (!node.is_switch()) {
      return;
    }
    const std::size_t count =
        (node.forwarding.size() + wire::kLinearBlockLids - 1) / wire::kLinearBlockLids;
    for_each_block(count, named, [&](std::size_t block) {
      Record record{.lid = query.subnet().port(id).info.lid,
                    .block = static_cast<std::uint16_t>(block)};
      for (std::size_t i = 0; i < wire::kLinearBlockLids; ++i) {
        record.table.ports[i] =
            node.forward(Lid{static_cast<std::uint32_t>(block * wire::kLinearBlockLids + i)});
      }
      blocks.add(record);
    });
  });
}

void answer_multicast_forwarding_records(const SaQuery& query, SaAnswer& answer) {
  using Record = wire::MulticastForwardingTableRecord;
  constexpr std::size_t kPositionPorts = 16;
  BlockAnswer<Record> blocks{query, answer};
  const auto named = query.has<Record, "BlockNum">()
                         ? std::optional<std::size_t>{blocks.wanted().block}
                         : std::nullopt;
  blocks.for_each_end_port([&](PortId id) {
    const SubnetNode& node = query.subnet().node(id.node);
    if (!node.is_switch()) {
      return;
    }
    const std::size_t count =
        (node.multicast.size() + wire::kMulticastBlockLids - 1) / wire::kMulticastBlockLids;
    for_each_block(count, named, [&](std::size_t block) {
      const std::size_t first = block * wire::kMulticastBlockLids;
      for (std::size_t position = 0; position * kPositionPorts < node.ports.size(); ++position) {
        Record record{.lid = query.subnet().port(id).info.lid,
                      .position = static_cast<std::uint8_t>(position),
                      .block = static_cast<std::uint16_t>(block)};
        for (std::size_t i = 0; i < wire::kMulticastBlockLids; ++i) {
          for (std::size_t bit = 0; first + i < node.multicast.size() && bit < kPositionPorts;
               ++bit) {
            const bool forwards = node.multicast[first + i].test(position * kPositionPorts + bit);
            record.table.port_masks[i] |= static_cast<std::uint16_t>(forwards ? 1U << bit : 0);
          }
        }
        blocks.add(record);
      }
    });
  });
}

void answer_pkey_table_records(const SaQuery& query, SaAnswer& answer) {
  using Record = wire::PKeyTableRecord;
  if (!query.is_trusted) {
    return answer.refuse(wire::SaStatus::RequestDenied);
  }
  BlockAnswer<Record> blocks{query, answer, wire::kComponent<Record, "PortNum">};
  blocks.for_each_end_port([&](PortId id) {
    const Lid lid = query.subnet().port(id).info.lid;
    const bool is_switch = query.subnet().node(id.node).is_switch();
    for_each_port(query.subnet(), id, [&](const SubnetPort& port) {
      constexpr std::size_t kKeys = wire::PKeyTable{}.pkeys.size();
      for (std::size_t first = 0; first < port.pkeys.size(); first += kKeys) {
        Record record{
            .lid = lid, .block = static_cast<std::uint16_t>(first / kKeys), .port = port.number};
        std::copy_n(port.pkeys.begin() + static_cast<std::ptrdiff_t>(first),
                    std::min(kKeys, port.pkeys.size() - first), record.table.pkeys.begin());
        blocks.add(record, is_switch);
      }
    });
  });
}

}  // namespace weft::subnet
