#include "iscsi/target_options.h"

#include <algorithm>
#include <string_view>

namespace weft::iscsi {

Result<void> check_iscsi_name(const std::string& name) {
  constexpr std::size_t kMaxNameBytes = 223;
  constexpr std::string_view kCharacters = "abcdefghijklmnopqrstuvwxyz0123456789-.:";
  const std::string_view text = name;
  const bool has_type =
      text.starts_with("iqn.") || text.starts_with("eui.") || text.starts_with("naa.");
  const bool is_plain = std::ranges::all_of(text, [&](char character) {
    const bool is_upper_hex = character >= 'A' && character <= 'F' && !text.starts_with("iqn.");
    const bool is_utf8 = static_cast<unsigned char>(character) >= 0x80;
    return is_upper_hex || is_utf8 || kCharacters.contains(character);
  });
  if (!has_type || text.size() <= 4 || text.size() > kMaxNameBytes || !is_plain) {
    return fail(ErrorCode::InvalidArgument,
                "'{}' is no iSCSI Name: iqn., eui. or naa., then small letters, digits and -.: "
                "(RFC 7143 §4.2.7)",
                name);
  }
  return {};
}

}  // namespace weft::iscsi
