#include "subnet/sm_lids.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <tuple>

namespace weft::subnet {
namespace {

class Assignment {
 public:
  Assignment(Subnet& subnet, const SubnetManagerOptions& options, LidMemory& memory)
      : subnet_(subnet), options_(options), memory_(memory) {
    for (std::uint32_t i = 0; i < subnet.nodes().size(); ++i) {
      const SubnetNode& node = subnet.nodes()[i];
      for (const SubnetPort& port : node.ports) {
        const bool takes_lids =
            node.is_switch() ? port.number == PortNumber{} : port.info.local_port != PortNumber{};
        if (takes_lids && port.guid != Guid{}) {
          wanting_.push_back({NodeId{i}, port.number});
        }
      }
    }
    std::ranges::sort(wanting_, {}, [&](PortId port) {
      return std::tuple{subnet_.node(port.node).is_switch(), subnet_.port(port).guid};
    });
  }

  Result<void> run() {
    claim();
    avoid_absent_lids();
    std::size_t without = 0;
    for (const PortId port : wanting_) {
      const std::uint8_t lmc = lmc_of(port);
      const Lid lid = take_free(lmc);
      if (lid != Lid{}) {
        use(port, lid, lmc);
      } else {
        subnet_.set_lids(port, lid, 0);
        ++without;
      }
    }
    for (std::uint32_t i = 0; i < subnet_.nodes().size(); ++i) {
      for (const SubnetPort& port : subnet_.nodes()[i].ports) {
        if (port.guid != Guid{} && port.info.lid != Lid{}) {
          memory_[port.guid] = port.info.lid;
        }
      }
    }
    if (without != 0) {
      return fail(ErrorCode::OutOfMemory,
                  "{} ports have no LID: a subnet has {} unicast LIDs; lower LMCs or fewer nodes "
                  "would fit",
                  without, kEndOfUnicast - 1);
    }
    return {};
  }

 private:
  [[nodiscard]] std::uint8_t lmc_of(PortId port) const {
    if (subnet_.node(port.node).is_switch()) {
      return 0;  // base port 0 has no LMC (§14.2.5.6)
    }
    const auto found = options_.lmc_of_port.find(subnet_.port(port).guid);
    return found == options_.lmc_of_port.end() ? options_.lmc : found->second;
  }

  [[nodiscard]] bool is_free(Lid lid, std::uint32_t count) const {
    if (!lid.is_unicast() || lid.value() % count != 0 || lid.value() + count > kEndOfUnicast) {
      return false;
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      if (used_[lid.value() + i]) {
        return false;
      }
    }
    return true;
  }

  void use(PortId port, Lid lid, std::uint8_t lmc) {
    for (std::uint32_t i = 0; i < 1U << lmc; ++i) {
      used_.set(lid.value() + i);
    }
    subnet_.set_lids(port, lid, lmc);
  }

  /// In order of precedence: PortInfo that agrees with memory, PortInfo alone, memory alone.
  void claim() {
    for (const int round : {0, 1, 2}) {
      std::erase_if(wanting_, [&](PortId port) {
        const SubnetPort& record = subnet_.port(port);
        const std::uint8_t lmc = lmc_of(port);
        const auto found = memory_.find(record.guid);
        const Lid reused = found == memory_.end() ? Lid{} : found->second;
        const Lid said = record.info.lmc == lmc ? record.info.lid : Lid{};
        const Lid wanted = round == 2 ? reused : said;
        if ((round == 0 && said != reused) || !is_free(wanted, 1U << lmc)) {
          return false;
        }
        use(port, wanted, lmc);
        return true;
      });
    }
  }

  void avoid_absent_lids() {
    for (const auto& [guid, lid] : memory_) {
      if (!subnet_.find_port(guid)) {
        absent_.set(lid.value());
      }
    }
  }

  [[nodiscard]] Lid take_free(std::uint8_t lmc) {
    const std::uint32_t count = 1U << lmc;
    for (const bool avoids_absent : {true, false}) {
      std::uint32_t& lid = next_[avoids_absent ? 0 : 1].at(lmc);
      const std::uint32_t first = (options_.first_lid.value() + count - 1) / count * count;
      for (lid = std::max(lid, first); lid + count <= kEndOfUnicast; lid += count) {
        bool is_good = is_free(Lid{lid}, count);
        for (std::uint32_t i = 0; is_good && avoids_absent && i < count; ++i) {
          is_good = !absent_[lid + i];
        }
        if (is_good) {
          return Lid{lid};
        }
      }
    }
    return {};
  }

  Subnet& subnet_;
  const SubnetManagerOptions& options_;
  LidMemory& memory_;
  std::vector<PortId> wanting_;
  std::bitset<kEndOfUnicast> used_;
  std::bitset<kEndOfUnicast> absent_;
  std::array<std::array<std::uint32_t, 8>, 2> next_{};  // by LMC: all LIDs below are taken
};

}  // namespace

Result<void> assign_lids(Subnet& subnet, const SubnetManagerOptions& options, LidMemory& memory) {
  return Assignment{subnet, options, memory}.run();
}

}  // namespace weft::subnet
