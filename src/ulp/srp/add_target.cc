#include "ulp/srp/add_target.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <span>
#include <system_error>

#include "ulp/srp/port_name.h"

namespace weft::srp {
namespace {

constexpr std::uint64_t kRevision16a = 0x0100;  // IOClass of controllers (SRP r16a annex B)
constexpr std::uint64_t kRevision10 = 0xFF00;
constexpr std::size_t kGidDigits = 32;

enum class Field : std::uint8_t {
  IdExt,
  IocGuid,
  Dgid,
  Pkey,
  ServiceId,
  Destination,
  InitiatorExt,
  IoClass,
  Tuning,
};

struct Name {
  std::string_view text;
  Field field;
  int base;  // of the number; 0: it is none
  std::uint64_t most;
};

constexpr std::uint64_t kMost64 = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kMost32 = std::numeric_limits<std::uint32_t>::max();

constexpr auto kAddTargetNames = std::to_array<Name>({
    {"id_ext",           Field::IdExt,        16, kMost64},
    {"ioc_guid",         Field::IocGuid,      16, kMost64},
    {"dgid",             Field::Dgid,         0,  0      },
    {"pkey",             Field::Pkey,         16, 0xFFFF },
    {"service_id",       Field::ServiceId,    16, kMost64},
    {"dest",             Field::Destination,  0,  0      },
    {"initiator_ext",    Field::InitiatorExt, 16, kMost64},
    {"io_class",         Field::IoClass,      16, 0xFFFF },
    {"max_sect",         Field::Tuning,       10, kMost32},
    {"max_cmd_per_lun",  Field::Tuning,       10, kMost32},
    {"target_can_queue", Field::Tuning,       10, kMost32},
    {"queue_size",       Field::Tuning,       10, kMost32},
    {"cmd_sg_entries",   Field::Tuning,       10, 255    },
    {"sg_tablesize",     Field::Tuning,       10, 1 << 11},
    {"allow_ext_sg",     Field::Tuning,       10, 1      },
    {"comp_vector",      Field::Tuning,       10, kMost32},
    {"tl_retry_count",   Field::Tuning,       10, 7      },
    {"max_it_iu_size",   Field::Tuning,       10, kMost32},
    {"ch_count",         Field::Tuning,       10, kMost32},
});

[[nodiscard]] std::optional<std::uint64_t> number_of(std::string_view text, const Name& name) {
  if (name.base == 16 && text.starts_with("0x")) {
    text.remove_prefix(2);
  }
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, name.base);
  const bool is_number = !text.empty() && error == std::errc{} && stop == end;
  return is_number && value <= name.most ? std::optional{value} : std::nullopt;
}

[[nodiscard]] std::optional<Gid> gid_of(std::string_view text) {
  if (text.size() != kGidDigits) {
    return std::nullopt;
  }
  constexpr Name kHalf{.text = {}, .field = {}, .base = 16, .most = kMost64};
  const auto prefix = number_of(text.substr(0, kGidDigits / 2), kHalf);
  const auto interface = number_of(text.substr(kGidDigits / 2), kHalf);
  return prefix && interface && text.find('x') == text.npos
             ? std::optional{Gid{*prefix, Guid{*interface}}}
             : std::nullopt;
}

/// False: the value has another form.
[[nodiscard]] bool set_field(AddTarget& made, const Name& name, std::string_view text) {
  if (name.field == Field::Dgid) {
    const auto gid = gid_of(text);
    made.destination_gid = gid.value_or(Gid{});
    return gid.has_value();
  }
  if (name.field == Field::Destination) {
    made.destination = text;
    const std::size_t colon = text.rfind(':');
    return colon != text.npos && colon != 0 && colon + 1 != text.size();
  }
  const auto number = number_of(text, name);
  if (!number) {
    return false;
  }
  switch (name.field) {
    case Field::IdExt:
      made.id_ext = *number;
      break;
    case Field::IocGuid:
      made.ioc_guid = Guid{*number};
      break;
    case Field::Pkey:
      made.pkey = PKey{static_cast<std::uint16_t>(*number)};
      break;
    case Field::ServiceId:
      made.service_id = *number;
      break;
    case Field::InitiatorExt:
      made.initiator_ext = *number;
      break;
    case Field::IoClass:
      made.is_revision_10 = *number == kRevision10;
      return *number == kRevision10 || *number == kRevision16a;
    case Field::Dgid:
    case Field::Destination:
    case Field::Tuning:
      break;
  }
  return true;
}

[[nodiscard]] std::string_view trimmed(std::string_view line) {
  while (!line.empty() && (line.back() == '\n' || line.back() == ' ' || line.back() == '\0')) {
    line.remove_suffix(1);
  }
  return line;
}

}  // namespace

wire::SrpPortId AddTarget::target_port_id() const {
  const wire::SrpPortId id = Gid{id_ext, ioc_guid}.octets();
  return is_revision_10 ? with_halves_swapped(id) : id;
}

bool AddTarget::is_same_session(const AddTarget& other) const {
  return target_port_id() == other.target_port_id() && initiator_ext == other.initiator_ext &&
         destination_gid == other.destination_gid && service_id == other.service_id &&
         destination == other.destination;
}

Result<AddTarget> parse_add_target(std::string_view line) {
  line = trimmed(line);
  AddTarget made;
  unsigned seen = 0;
  const auto bit = [](Field field) { return 1U << static_cast<unsigned>(field); };
  for (std::string_view rest = line; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    if (word.empty()) {
      continue;
    }
    const std::size_t equals = std::min(word.find('='), word.size());
    const auto name = std::ranges::find(kAddTargetNames, word.substr(0, equals), &Name::text);
    if (name == kAddTargetNames.end() || equals == word.size()) {
      return fail(ErrorCode::InvalidArgument, "'{}' is no parameter of a target", word);
    }
    if (!set_field(made, *name, word.substr(equals + 1))) {
      return fail(ErrorCode::InvalidArgument, "'{}' has a value of another form", word);
    }
    seen |= bit(name->field);
  }
  const unsigned named = bit(Field::IdExt) | bit(Field::IocGuid);
  const unsigned by_cm = named | bit(Field::Dgid) | bit(Field::Pkey) | bit(Field::ServiceId);
  const unsigned by_rdma_cm = named | bit(Field::Destination);
  const bool has_both = (seen & bit(Field::Destination)) != 0 && (seen & bit(Field::Dgid)) != 0;
  if (has_both || ((seen & by_cm) != by_cm && (seen & by_rdma_cm) != by_rdma_cm)) {
    return fail(ErrorCode::InvalidArgument,
                "'{}' is no target: it has id_ext and ioc_guid, and either dgid, pkey and "
                "service_id or dest",
                line);
  }
  return made;
}

}  // namespace weft::srp
