// JSON output of print.h and dissect.h; the only file in this room that uses the JSON library.

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "wire/dissect.h"
#include "wire/print.h"

namespace weft::wire {
namespace {

using Json = nlohmann::ordered_json;  // keeps headers and fields in wire order

[[nodiscard]] Json json_of(const PrintedField& field) {
  const Json value = field.style == ValueStyle::Decimal ? Json(field.number)
                     : field.style == ValueStyle::Hex   ? Json(fmt::format("{:#x}", field.number))
                                                        : Json(field.text);
  return field.meaning.empty() ? value
                               : Json{
                                     {"value", value        },
                                     {"name",  field.meaning}
  };
}

[[nodiscard]] Json json_of(const PrintedHeader& header) {
  Json fields = Json::object();
  for (const PrintedField& field : header.fields) {
    fields[field.name] = json_of(field);
  }
  return Json{
      {"header", header.name      },
      {"bytes",  header.bytes     },
      {"fields", std::move(fields)}
  };
}

[[nodiscard]] Json json_of(const PrintedPacket& packet) {
  Json headers = Json::array();
  for (const PrintedHeader& header : packet.headers) {
    headers.push_back(json_of(header));
  }
  return Json{
      {"summary",       packet.summary      },
      {"headers",       std::move(headers)  },
      {"payload_bytes", packet.payload_bytes}
  };
}

[[nodiscard]] Json json_of(const CrcComparison& crc, int digits) {
  Json json{
      {"found", fmt::format("{:#0{}x}", crc.found, digits + 2)},
      {"right", crc.is_right()}
  };
  if (!crc.is_right()) {
    json["expected"] = fmt::format("{:#0{}x}", crc.expected, digits + 2);
  }
  return json;
}

}  // namespace

std::string to_json(const PrintedPacket& packet) { return json_of(packet).dump(); }

std::string to_json(const Dissection& dissection) {
  Json json = json_of(dissection.packet);
  json["summary"] = summary(dissection);
  json["icrc"] = json_of(dissection.icrc, 8);
  if (dissection.vcrc) {
    json["vcrc"] = json_of(*dissection.vcrc, 4);
  }
  return json.dump();
}

}  // namespace weft::wire
