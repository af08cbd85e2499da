// Arbitrary bytes as tables, and as a counter page of a valid fabric, must be refused or be safe to
// use in every way.

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "fabric/counters.h"
#include "fabric/faults.h"
#include "fabric/path.h"
#include "fabric/tables.h"
#include "fabric/testing/test_routes.h"
#include "fabric/topology.h"

namespace weft::fabric {
namespace {

/// Storage with the alignment of mappings.
struct alignas(64) Line {
  std::byte bytes[64];  // NOLINT(modernize-avoid-c-arrays): an aligned unit of storage
};

void use_tables(const TablesView& view) {
  (void)show(view);
  for (const FaultRecord& fault : view.faults()) {
    (void)matches(fault, {.opcode = {}, .slid = {}, .dlid = {}, .dest_qp = {}, .psn = Psn{1}});
    if (fault.egress != kNoPort) {
      (void)port_name(view, fault.egress);
    }
  }
  for (std::uint32_t i = 0; i < view.ports().size() && i < 64; ++i) {
    const PortRecord& port = view.ports()[i];
    if (port.is_switch_port() && port.number != PortNumber{}) {
      continue;
    }
    for (std::uint32_t lid = 0; lid < 16; ++lid) {
      (void)describe(view, resolve(view, PortIndex{i}, Lid{lid}));
    }
    (void)resolve_multicast(view, PortIndex{i}, kBroadcastMlid);
  }
}

[[nodiscard]] std::vector<std::byte> good_tables(const Topology& topology) {
  TablesBuilder builder{topology};
  (void)testing::TestRoutes{builder}.bring_up();
  std::vector<FaultRecord> faults = records_of(*read_fault("drop p=0.5"), 0, {});
  faults.push_back(faults.front());
  faults.back().egress = PortIndex{3};
  builder.set_faults(std::move(faults));
  return builder.build(1);
}

/// A small image in which most bytes are in use, and one with several levels of switches.
[[nodiscard]] std::array<std::vector<std::byte>, 2>& good_images() {
  static std::array images{good_tables(generate("star:2").value()),
                           good_tables(generate_fat_tree(4, 2).value())};
  return images;
}

/// Mutates a valid image: bytes of the input temporarily replace bytes of it.
void use_mutation(ByteSpan input) {
  constexpr std::size_t kChangeBytes = 4;
  std::vector<std::byte>& image = good_images().at(input.size() / kChangeBytes % 2);
  std::vector<std::pair<std::size_t, std::byte>> before;
  for (; input.size() >= kChangeBytes; input = input.subspan(kChangeBytes)) {
    const std::size_t at =
        (std::to_integer<std::size_t>(input[0]) | std::to_integer<std::size_t>(input[1]) << 8 |
         std::to_integer<std::size_t>(input[2]) << 16) %
        image.size();
    before.emplace_back(at, image[at]);
    image[at] = input[3];
  }
  if (const auto view = TablesView::open(image)) {
    use_tables(*view);
  }
  for (; !before.empty(); before.pop_back()) {
    image[before.back().first] = before.back().second;
  }
}

}  // namespace
}  // namespace weft::fabric

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const weft::ByteSpan input = std::as_bytes(std::span{data, size});
  std::vector<weft::fabric::Line> lines(size / sizeof(weft::fabric::Line) + 1);
  const auto memory = std::as_writable_bytes(std::span{lines});
  weft::copy_bytes(memory, input);
  if (const auto view = weft::fabric::TablesView::open(memory.first(size))) {
    weft::fabric::use_tables(*view);
  }
  const auto view = weft::fabric::TablesView::open(weft::fabric::good_images().back());
  if (const auto page = weft::fabric::CounterPageView::open(memory.first(size))) {
    weft::fabric::CounterSum sum;
    page->add_to(sum, *view, weft::fabric::NodeIndex{0});
  }
  weft::fabric::use_mutation(input);
  return 0;
}
