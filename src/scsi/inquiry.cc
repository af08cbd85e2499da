// INQUIRY (SPC-4 §6.6) and its vital product data (SPC-4 §7.8, SBC-3 §6.5).

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>

#include "scsi/command_table.h"
#include "scsi/third_party_copy.h"

namespace weft::scsi {
namespace {

constexpr std::uint8_t kMaxCompareBlocks = 255;  // MAXIMUM COMPARE AND WRITE LENGTH; policy

ParameterData standard(const CommandContext& context) {
  const UnitState& unit = context.unit;
  const bool protects = unit.device->geometry().keeps_protection;
  ParameterData data;
  data.add(2, 0).add(1, 0x06);              // direct access block device, SPC-4
  data.add(1, 0x32).add(1, 96 - 5);         // NORMACA, HISUP, response data format 2
  data.add(1, 0x38 | (protects ? 1u : 0));  // TPGS: implicit and explicit; 3PC; PROTECT
  data.add(1, unit.ports.size() > 1 ? 0x10 : 0).add(1, 0x02);  // MULTIP; CMDQUE
  data.add_text(unit.options.vendor, 8).add_text(unit.options.product, 16);
  data.add_text(unit.options.revision, 4).add_zeroes(22);
  data.add(2, 0x00A0).add(2, 0x0460).add(2, 0x04C0);  // SAM-5, SPC-4, SBC-3
  data.add_zeroes(96 - data.size());
  return data;
}

void add_designator(ParameterData& data, std::uint8_t code_set, std::uint8_t kind,
                    const ParameterData& value) {
  data.add(1, code_set).add(1, kind).add(1, 0).add(1, value.size()).add(value.octets());
}

// SPC-4 §7.8.6: the unit's names, then those of the port that the command came through.
ParameterData device_identification(const CommandContext& context) {
  const UnitOptions& options = context.unit.options;
  constexpr std::uint8_t kOfPort = 0x90;  // PIV, association: target port
  ParameterData data;
  add_designator(data, 1, 3, ParameterData{}.add(8, options.naa));
  ParameterData t10;
  t10.add_text(options.vendor, 8).add_text(options.product, 16);
  t10.add_text(options.serial, options.serial.size());
  add_designator(data, 2, 1, t10);
  for (const PortOptions& port : context.unit.ports) {
    if (port.id != context.nexus.port) {
      continue;
    }
    const auto protocol = static_cast<std::uint8_t>(port.protocol << 4 | 1);
    add_designator(data, protocol, kOfPort | 4, ParameterData{}.add(2, 0).add(2, port.id.value()));
    add_designator(data, protocol, kOfPort | 5, ParameterData{}.add(2, 0).add(2, port.group));
    if (port.designator.size() == 16) {
      add_designator(data, protocol, kOfPort | 2, ParameterData{}.add(port.designator));
    }
  }
  return data;
}

ParameterData extended_inquiry(const CommandContext& context) {  // SPC-4 §7.8.7
  const bool protects = context.unit.device->geometry().keeps_protection;
  ParameterData data(60);
  data.set(0, 1, protects ? 0x3F : 0);  // SPT: all types; GRD_CHK, APP_CHK, REF_CHK
  data.set(1, 1, 0x07);                 // HEADSUP, ORDSUP, SIMPSUP
  data.set(2, 1, context.unit.device->geometry().has_write_cache ? 0x01 : 0);  // V_SUP
  data.set(3, 1, 0x01);                                                        // LUICLR
  return data;
}

ParameterData block_limits(const CommandContext& context) {  // SBC-3 §6.5.3
  const BlockGeometry geometry = context.unit.device->geometry();
  const std::uint32_t most = context.unit.options.max_transfer_bytes / geometry.block_bytes;
  const bool discards = geometry.can_discard;
  ParameterData data(60);
  data.set(1, 1, std::min<std::uint32_t>(kMaxCompareBlocks, most));
  data.set(2, 2, std::uint64_t{1} << geometry.physical_exponent);
  data.set(4, 4, most).set(8, 4, geometry.optimal_blocks);
  data.set(16, 4, discards ? std::numeric_limits<std::uint32_t>::max() : 0);
  data.set(20, 4, discards ? 256 : 0);  // MAXIMUM UNMAP BLOCK DESCRIPTOR COUNT; policy
  data.set(24, 4, discards ? std::uint64_t{1} << geometry.physical_exponent : 0);
  data.set(40, 4, std::min(geometry.atomic_blocks, most));  // MAXIMUM ATOMIC TRANSFER LENGTH
  return data;
}

ParameterData characteristics(const CommandContext& context) {  // SBC-3 §6.5.2
  ParameterData data(60);
  const BlockGeometry geometry = context.unit.device->geometry();
  data.set(0, 2, geometry.rotates ? 7200 : 1);      // 1: does not rotate
  data.set(3, 1, geometry.can_discard ? 0x40 : 0);  // WABEREQ: erased blocks can be read
  return data;
}

ParameterData provisioning(const CommandContext& context) {  // SBC-3 §6.5.4
  const bool discards = context.unit.device->geometry().can_discard;
  ParameterData data(4);
  data.set(1, 1, discards ? 0xE4 : 0);  // LBPU, LBPWS, LBPWS10, LBPRZ
  data.set(2, 1, discards ? 2 : 0);     // thin
  return data;
}

ParameterData serial(const CommandContext& context) {
  const std::string& text = context.unit.options.serial;
  return ParameterData{}.add_text(text, text.size());
}

ParameterData supported(const CommandContext& context);

struct VpdPage {
  std::uint8_t code;
  ParameterData (*make)(const CommandContext&);
};
constexpr auto kVpdPages = std::to_array<VpdPage>({
    {0x00, supported            },
    {0x80, serial               },
    {0x83, device_identification},
    {0x86, extended_inquiry     },
    {0x8F, third_party_copy     },
    {0xB0, block_limits         },
    {0xB1, characteristics      },
    {0xB2, provisioning         },
});

ParameterData supported(const CommandContext& /*context*/) {
  ParameterData data;
  for (const VpdPage& page : kVpdPages) {
    data.add(1, page.code);
  }
  return data;
}

}  // namespace

Outcome<void> inquiry(CommandContext& context) {
  const std::uint8_t code = load8(context.cdb, 2);
  const std::uint16_t allocation_length = load16(context.cdb, 3);
  if ((load8(context.cdb, 1) & 0x02) != 0) {
    return invalid_field_in_cdb(1, 1);  // CMDDT is obsolete
  }
  if ((load8(context.cdb, 1) & 0x01) == 0) {
    if (code != 0) {
      return invalid_field_in_cdb(2, 7);
    }
    context.respond(standard(context), allocation_length);
    return {};
  }
  const auto page = std::ranges::find(kVpdPages, code, &VpdPage::code);
  if (page == kVpdPages.end()) {
    return invalid_field_in_cdb(2, 7);
  }
  const ParameterData content = page->make(context);
  ParameterData data;
  data.add(1, 0).add(1, code).add(2, content.size()).add(content.octets());
  context.respond(data, allocation_length);
  return {};
}

}  // namespace weft::scsi
