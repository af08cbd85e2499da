#include "programs/iscsi/transport.h"

#include <charconv>
#include <system_error>

namespace weft::programs::iscsi {

Result<HostAndPort> parse_host_and_port(const std::string& text) {
  HostAndPort parsed;
  const std::size_t colon = text.rfind(':');
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(
      text.data() + (colon == text.npos ? text.size() : colon + 1), end, parsed.port);
  if (error != std::errc{} || stop != end) {
    return fail(ErrorCode::InvalidArgument, "'{}' is no portal: HOST:PORT, as 127.0.0.1:3260",
                text);
  }
  parsed.host = text.substr(0, colon);
  if (parsed.host.starts_with('[') && parsed.host.ends_with(']')) {
    parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
  }
  return parsed;
}

}  // namespace weft::programs::iscsi
