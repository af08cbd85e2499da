#include "wire/iscsi/opcode.h"

namespace weft::wire::iscsi {

std::string_view to_string(Opcode opcode) {
  switch (opcode) {
    case Opcode::NopOut:
      return "NOP-Out";
    case Opcode::ScsiCommand:
      return "SCSI Command";
    case Opcode::TaskManagementRequest:
      return "Task Management Function Request";
    case Opcode::LoginRequest:
      return "Login Request";
    case Opcode::TextRequest:
      return "Text Request";
    case Opcode::DataOut:
      return "SCSI Data-Out";
    case Opcode::LogoutRequest:
      return "Logout Request";
    case Opcode::SnackRequest:
      return "SNACK Request";
    case Opcode::NopIn:
      return "NOP-In";
    case Opcode::ScsiResponse:
      return "SCSI Response";
    case Opcode::TaskManagementResponse:
      return "Task Management Function Response";
    case Opcode::LoginResponse:
      return "Login Response";
    case Opcode::TextResponse:
      return "Text Response";
    case Opcode::DataIn:
      return "SCSI Data-In";
    case Opcode::LogoutResponse:
      return "Logout Response";
    case Opcode::R2t:
      return "R2T";
    case Opcode::AsyncMessage:
      return "Asynchronous Message";
    case Opcode::Reject:
      return "Reject";
  }
  return "reserved opcode";
}

}  // namespace weft::wire::iscsi
