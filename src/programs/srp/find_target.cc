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

/// The place in a root path of what a line of srp_daemon says; none: what is not needed here.
[[nodiscard]] std::optional<std::size_t> field_of(std::string_view name) {
  constexpr std::pair<std::string_view, std::size_t> kFields[] = {
      {"sgid",          0},
      {"initiator_ext", 1},
      {"dgid",          3},
      {"pkey",          4},
      {"service_id",    5},
      {"lun",           6},
      {"id_ext",        7},
      {"ioc_guid",      8}
  };
  for (const auto& [text, field] : kFields) {
    if (name == text) {
      return field;
    }
  }
  return std::nullopt;
}

[[nodiscard]] Result<weft::srp::BootSession> parse_line(std::string_view line) {
  std::array<std::string, 9> fields;
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
  std::string path = "ib_srp";
  for (const std::string& field : fields) {
    path += ":" + field;
  }
  return weft::srp::parse_root_path(path);
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
  if (!is_table && !text.starts_with("ib_srp:") && !text.starts_with("id_ext=")) {
    return parse_target_url(text);
  }
  const auto session = is_table                      ? read_table(text.substr(kTableScheme.size()))
                       : text.starts_with("ib_srp:") ? weft::srp::parse_root_path(text)
                                                     : parse_line(text);
  return session ? target_of(*session) : std::unexpected(session.error());
}

}  // namespace weft::programs::srp
