// Units of SRP targets by the names that others give them: srp_daemon, gPXE and its boot table.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include <charconv>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "programs/srp/target_names.h"
#include "programs/srp/target_url.h"
#include "scsi/lun.h"
#include "ulp/srp/port_name.h"
#include "wire/srp/device_management.h"

namespace weft::programs::srp {
namespace {

constexpr std::string_view kTableScheme = "sbft:";
constexpr std::size_t kMostTableBytes = 4096;  // policy; ours has 136

/// Octets of a LUN, or, as people write it, its number.
[[nodiscard]] std::optional<scsi::Lun> lun_of(std::uint64_t value) {
  if (value <= scsi::kMaxLun) {
    return scsi::Lun{static_cast<std::uint16_t>(value)};
  }
  return scsi::parse_lun(value);
}

[[nodiscard]] Result<weft::srp::BootSession> read_table(std::string_view path) {
  std::ifstream file{std::string{path}, std::ios::binary};
  if (!file) {
    return fail(ErrorCode::NotFound, "'{}' cannot be read", path);
  }
  std::string text(kMostTableBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return weft::srp::parse_boot_table(std::as_bytes(std::span{text}));
}

constexpr std::size_t kRootPathFields = 9;
constexpr std::size_t kIoClass = kRootPathFields;  ///< a line has it, a root path has not

/// The place in a root path of what a line of srp_daemon says; none: what is not needed here.
[[nodiscard]] std::optional<std::size_t> field_of(std::string_view name) {
  constexpr std::pair<std::string_view, std::size_t> kFields[] = {
      {"sgid",          0       },
      {"initiator_ext", 1       },
      {"dgid",          3       },
      {"pkey",          4       },
      {"service_id",    5       },
      {"lun",           6       },
      {"id_ext",        7       },
      {"ioc_guid",      8       },
      {"io_class",      kIoClass}
  };
  for (const auto& [text, field] : kFields) {
    if (name == text) {
      return field;
    }
  }
  return std::nullopt;
}

/// Lines that say nothing are of the class that SRP has had since.
[[nodiscard]] Result<bool> parse_is_revision_10(std::string_view text) {
  std::uint16_t io_class = wire::kSrpIoClass;
  const std::string_view digits = text.substr(text.starts_with("0x") ? 2 : 0);
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, io_class, 16);
  const bool is_number = text.empty() || (error == std::errc{} && stop == end);
  if (!is_number || (io_class != wire::kSrpIoClass && io_class != wire::kSrpRev10IoClass)) {
    return fail(ErrorCode::InvalidArgument, "the I/O class '{}' is neither {:04x} nor {:04x}", text,
                wire::kSrpIoClass, wire::kSrpRev10IoClass);
  }
  return io_class == wire::kSrpRev10IoClass;
}

[[nodiscard]] Result<std::array<std::string, kRootPathFields + 1>> fields_of(
    std::string_view line) {
  std::array<std::string, kRootPathFields + 1> fields;
  for (std::string_view rest = line; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    const std::size_t equals = word.find('=');
    if (equals == word.npos) {
      return fail(ErrorCode::InvalidArgument, "'{}' of '{}' is no NAME=VALUE", word, line);
    }
    if (const auto field = field_of(word.substr(0, equals))) {
      fields[*field] = word.substr(equals + 1);
    }
  }
  return fields;
}

/// Revision 10 swaps the halves of both identifiers, as ib_srp does (R-SRPI-3).
[[nodiscard]] Result<TargetUrl> parse_line(std::string_view line) {
  const auto fields = fields_of(line);
  if (!fields) {
    return std::unexpected(fields.error());
  }
  const auto is_revision_10 = parse_is_revision_10((*fields)[kIoClass]);
  if (!is_revision_10) {
    return std::unexpected(is_revision_10.error());
  }
  std::string path = "ib_srp";
  for (const std::string& field : std::span{*fields}.first(kRootPathFields)) {
    path += ":" + field;
  }
  auto session = weft::srp::parse_root_path(path);
  if (!session) {
    return std::unexpected(session.error());
  }
  if (*is_revision_10) {
    session->target_port_id = weft::srp::with_halves_swapped(session->target_port_id);
    session->initiator_port_id = weft::srp::with_halves_swapped(session->initiator_port_id);
  }
  auto target = target_of(*session);
  if (target) {
    target->is_revision_10 = *is_revision_10;
  }
  return target;
}

}  // namespace

Result<TargetUrl> target_of(const weft::srp::BootSession& session) {
  if (session.destination_gid.is_zero() || session.service_id == 0 ||
      session.target_port_id == wire::SrpPortId{}) {
    return fail(ErrorCode::InvalidArgument,
                "a target has a DGID, a service ID, an identifier extension and an IOC GUID, as "
                "'ibsrpdm -c' and 'weft srp target' print them");
  }
  const auto lun = lun_of(session.lun);
  if (!lun) {
    return fail(ErrorCode::InvalidArgument, "LUN {:016x} is of no form that is known here",
                session.lun);
  }
  TargetUrl made{
      .port_id = session.target_port_id,
      .lun = lun->value(),
      .native = core::NativeAddress{.gid = session.destination_gid,
                                    .pkey = session.pkey,
                                    .service_id = session.service_id},
      .source_gid = session.source_gid
  };
  if (session.initiator_port_id != wire::SrpPortId{}) {
    made.initiator = session.initiator_port_id;
  }
  return made;
}

Result<TargetUrl> find_target(std::string_view text) {
  const bool is_table = text.starts_with(kTableScheme);
  if (text.starts_with("id_ext=")) {
    return parse_line(text);
  }
  if (!is_table && !text.starts_with("ib_srp:")) {
    return parse_target_url(text);
  }
  const auto session =
      is_table ? read_table(text.substr(kTableScheme.size())) : weft::srp::parse_root_path(text);
  return session ? target_of(*session) : std::unexpected(session.error());
}

}  // namespace weft::programs::srp
