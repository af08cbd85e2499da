#include "programs/srp/target_url.h"

#include <fmt/format.h>

#include <charconv>
#include <system_error>

#include "programs/srp/target_names.h"
#include "scsi/lun.h"

namespace weft::programs::srp {
namespace {

constexpr std::string_view kScheme = "srp://";

[[nodiscard]] std::unexpected<Error> refuse(std::string_view text) {
  return fail(ErrorCode::InvalidArgument,
              "'{}' is no logical unit: srp://HOST[:PORT]/TARGET/LUN, with the target's "
              "identifier in 16 or 32 hexadecimal digits, as 'weft srp target' prints it",
              text);
}

}  // namespace

Result<TargetUrl> parse_target_url(std::string_view text) {
  if (!text.starts_with(kScheme)) {
    return refuse(text);
  }
  const std::string_view rest = text.substr(kScheme.size());
  const std::size_t first = rest.find('/');
  const std::size_t last = rest.rfind('/');
  if (first == rest.npos || first == 0 || first == last) {
    return refuse(text);
  }
  TargetUrl url{.address = std::string{rest.substr(0, first)}};
  const std::size_t bracket = url.address.rfind(']');
  if (url.address.find(':', bracket == url.address.npos ? 0 : bracket) == url.address.npos) {
    url.address += fmt::format(":{}", kDefaultPort);
  }
  std::string target{rest.substr(first + 1, last - first - 1)};
  if (target.starts_with("0x")) {
    target.erase(0, 2);
  }
  const auto id = weft::srp::parse_port_id(target);
  if (!id || (target.size() != 16 && target.size() != 32)) {
    return refuse(text);
  }
  url.port_id = target.size() == 32 ? *id : port_id_of(guid_of(*id).value(), guid_of(*id));
  const std::string_view lun = rest.substr(last + 1);
  const char* const end = lun.data() + lun.size();
  const auto [stop, error] = std::from_chars(lun.data(), end, url.lun);
  if (lun.empty() || error != std::errc{} || stop != end || url.lun > scsi::kMaxLun) {
    return refuse(text);
  }
  return url;
}

wire::SrpPortId initiator_port_id(const TargetUrl& target, std::uint64_t extension, Guid guid) {
  const wire::SrpPortId id = port_id_of(extension, guid);
  return target.is_revision_10 ? weft::srp::with_halves_swapped(id) : id;
}

}  // namespace weft::programs::srp
