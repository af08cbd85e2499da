#include "programs/iscsi/target_url.h"

#include <charconv>
#include <system_error>

#include "iscsi/target_options.h"
#include "scsi/lun.h"

namespace weft::programs::iscsi {
namespace {

[[nodiscard]] std::unexpected<Error> refuse(std::string_view text) {
  return fail(ErrorCode::InvalidArgument,
              "'{}' is no logical unit: iscsi://HOST[:PORT]/IQN/LUN, as "
              "iscsi://127.0.0.1:3260/iqn.2026-01.org.example:disks/0",
              text);
}

}  // namespace

std::string with_port(std::string_view host) {
  const std::size_t bracket = host.rfind(']');
  const bool has_port =
      bracket == host.npos ? host.rfind(':') != host.npos : host.find(':', bracket) != host.npos;
  return std::string{host} + (has_port ? "" : ":3260");
}

Result<TargetUrl> parse_target_url(std::string_view text) {
  TargetUrl url;
  const std::size_t colon = text.find("://");
  if (colon == text.npos) {
    return refuse(text);
  }
  url.scheme = text.substr(0, colon);
  const std::string_view rest = text.substr(colon + 3);
  const std::size_t first = rest.find('/');
  const std::size_t last = rest.rfind('/');
  if ((url.scheme != "iscsi" && url.scheme != "iser") || first == rest.npos || first == 0 ||
      first == last) {
    return refuse(text);
  }
  if (rest.substr(0, first).find('@') != rest.npos) {
    return fail(ErrorCode::InvalidArgument,
                "accounts and secrets stand in a file (--chap-file), not in '{}'",
                rest.substr(rest.substr(0, first).find('@') + 1));
  }
  url.address = with_port(rest.substr(0, first));
  url.target = rest.substr(first + 1, last - first - 1);
  const std::string_view lun = rest.substr(last + 1);
  const char* const end = lun.data() + lun.size();
  const auto [stop, error] = std::from_chars(lun.data(), end, url.lun);
  if (lun.empty() || error != std::errc{} || stop != end || url.lun > scsi::kMaxLun) {
    return refuse(text);
  }
  if (auto checked = weft::iscsi::check_iscsi_name(url.target); !checked) {
    return std::unexpected(checked.error());
  }
  return url;
}

}  // namespace weft::programs::iscsi
