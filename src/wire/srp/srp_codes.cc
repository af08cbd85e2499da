#include "wire/srp/srp_codes.h"

namespace weft::wire {

std::string_view name_of(SrpOpcode opcode) {
  switch (opcode) {
    case SrpOpcode::LoginReq:
      return "SRP_LOGIN_REQ";
    case SrpOpcode::TskMgmt:
      return "SRP_TSK_MGMT";
    case SrpOpcode::Cmd:
      return "SRP_CMD";
    case SrpOpcode::ILogout:
      return "SRP_I_LOGOUT";
    case SrpOpcode::CredRsp:
      return "SRP_CRED_RSP";
    case SrpOpcode::AerRsp:
      return "SRP_AER_RSP";
    case SrpOpcode::TLogout:
      return "SRP_T_LOGOUT";
    case SrpOpcode::CredReq:
      return "SRP_CRED_REQ";
    case SrpOpcode::AerReq:
      return "SRP_AER_REQ";
    case SrpOpcode::LoginRsp:
      return "SRP_LOGIN_RSP";
    case SrpOpcode::Rsp:
      return "SRP_RSP";
    case SrpOpcode::LoginRej:
      return "SRP_LOGIN_REJ";
  }
  return {};
}

std::string_view name_of(SrpLoginRejReason reason) {
  switch (reason) {
    case SrpLoginRejReason::UnableToEstablishChannel:
      return "unable to establish an RDMA channel";
    case SrpLoginRejReason::InsufficientResources:
      return "insufficient RDMA channel resources";
    case SrpLoginRejReason::RequestIuTooLarge:
      return "requested IU length is too large";
    case SrpLoginRejReason::UnableToAssociateChannel:
      return "unable to associate the channel with an I_T nexus";
    case SrpLoginRejReason::UnsupportedDescriptorFormat:
      return "unsupported data buffer descriptor format";
    case SrpLoginRejReason::MultichannelUnsupported:
      return "no target support for multiple channels";
    case SrpLoginRejReason::ChannelLimitReached:
      return "RDMA channel limit reached";
  }
  return {};
}

std::string_view name_of(SrpTaskFunction function) {
  switch (function) {
    case SrpTaskFunction::AbortTask:
      return "ABORT TASK";
    case SrpTaskFunction::AbortTaskSet:
      return "ABORT TASK SET";
    case SrpTaskFunction::ClearTaskSet:
      return "CLEAR TASK SET";
    case SrpTaskFunction::LogicalUnitReset:
      return "LOGICAL UNIT RESET";
    case SrpTaskFunction::ClearAca:
      return "CLEAR ACA";
  }
  return {};
}

std::string_view name_of(SrpResponseCode code) {
  switch (code) {
    case SrpResponseCode::Complete:
      return "NO FAILURE or TASK MANAGEMENT FUNCTION COMPLETE";
    case SrpResponseCode::InvalidRequest:
      return "REQUEST FIELDS INVALID";
    case SrpResponseCode::InvalidField:
      return "INVALID FIELD";
    case SrpResponseCode::NotSupported:
      return "TASK MANAGEMENT FUNCTION NOT SUPPORTED";
    case SrpResponseCode::Failed:
      return "TASK MANAGEMENT FUNCTION FAILED";
  }
  return {};
}

}  // namespace weft::wire
